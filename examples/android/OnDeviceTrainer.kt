// Trains a model written by `insitu export --to litert-train`. Gradle: com.google.ai.edge.litert:litert
package insitu

import java.io.File
import java.nio.ByteBuffer
import java.nio.ByteOrder
import org.tensorflow.lite.Interpreter

class OnDeviceTrainer(model: File) : AutoCloseable {
    private val net = Interpreter(model)

    /** One step on a batch: samples as the model takes them, flattened, and one class number each. Returns the loss. */
    fun train(x: FloatArray, y: IntArray, rate: Float): Float {
        val given = mapOf("x" to of(x), "y" to of(y), "rate" to of(floatArrayOf(rate)))
        return run("train", given).getValue("loss").getFloat(0)
    }

    /** The probability of each class. */
    fun infer(x: FloatArray): FloatArray {
        val output = run("infer", mapOf("x" to of(x))).getValue("output").asFloatBuffer()
        return FloatArray(output.capacity()) { output.get(it) }
    }

    /** Weights, optimizer state and counters, one after the other: training goes on exactly from there. */
    fun save(file: File) = file.outputStream().channel.use { to ->
        run("save_android", mapOf("any" to of(intArrayOf(0)))).toSortedMap().values.forEach { to.write(it) }
    }

    fun restore(file: File) = file.inputStream().channel.use { from ->
        val state = net.getSignatureInputs("restore").sorted().associateWith { name ->
            buffer(net.getInputTensorFromSignature(name, "restore").numBytes()).also { from.read(it); it.rewind() }
        }
        run("restore", state)
    }

    private fun run(signature: String, inputs: Map<String, ByteBuffer>): Map<String, ByteBuffer> {
        val outputs = net.getSignatureOutputs(signature).toList().associateWith { name ->
            buffer(net.getOutputTensorFromSignature(name, signature).numBytes())
        }
        net.runSignature(inputs, HashMap<String, Any>(outputs), signature)
        return outputs.onEach { it.value.rewind() }
    }

    private fun of(x: FloatArray) = buffer(4 * x.size).also { it.asFloatBuffer().put(x) }
    private fun of(x: IntArray) = buffer(4 * x.size).also { it.asIntBuffer().put(x) }
    private fun buffer(bytes: Int) = ByteBuffer.allocateDirect(bytes).order(ByteOrder.nativeOrder())
    override fun close() = net.close()
}
