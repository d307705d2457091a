// What the example uses of LiteRT for Android, declared as its documentation has it: nothing here runs.
package org.tensorflow.lite

import java.io.File

interface Tensor {
    fun numBytes(): Int
}

class Interpreter(private val model: File) : AutoCloseable {
    fun getSignatureInputs(signature: String): Array<String> = TODO(signature)
    fun getSignatureOutputs(signature: String): Array<String> = TODO(signature)
    fun getInputTensorFromSignature(name: String, signature: String): Tensor = TODO(name + signature)
    fun getOutputTensorFromSignature(name: String, signature: String): Tensor = TODO(name + signature)
    fun runSignature(inputs: Map<String, Any>, outputs: Map<String, Any>, signature: String): Unit =
        TODO("$inputs$outputs$signature$model")
    override fun close() = Unit
}
