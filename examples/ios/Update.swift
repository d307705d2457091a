// Trains a model written by `learner.export("net.mlmodel")` with Core ML's MLUpdateTask, the twin of
// examples/android/OnDeviceTrainer.kt. It was never compiled or run by this project, which has no Apple system: the
// calls are those of Apple's documentation (MLUpdateTask, iOS 13 and macOS 10.15 or later).
// docs/exports-coreml.md says what the file has and what it does not update.
import CoreML

/// Train on these samples and write the updated model; `url` is a compiled model (MLModel.compileModel(at:)).
func update(_ url: URL, samples: [(MLMultiArray, Int)], to learned: URL) throws {
    let rows = try samples.map { (x, label) -> MLFeatureProvider in
        let target = try MLMultiArray(shape: [1], dataType: .int32)
        target[0] = NSNumber(value: label)
        return try MLDictionaryFeatureProvider(dictionary: ["x": x, "output_true": target])
    }
    let configuration = MLModelConfiguration()
    configuration.parameters = [.epochs: 5, .learningRate: 0.001, .miniBatchSize: 32]
    let handlers = MLUpdateProgressHandlers(forEvents: [.epochEnd], progressHandler: { context in
        print("epoch \(context.metrics[.epochIndex]!), loss \(context.metrics[.lossValue]!)")
    }, completionHandler: { context in
        if let error = context.task.error { print(error); return }
        try? context.model.write(to: learned)
    })
    let task = try MLUpdateTask(forModelAt: url, trainingData: MLArrayBatchProvider(array: rows),
                                configuration: configuration, progressHandlers: handlers)
    task.resume()
}
