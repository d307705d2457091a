"""A model that goes on learning in LiteRT, on a phone as here: train, save, restore in a fresh interpreter, go on."""

import numpy as np
from ai_edge_litert.interpreter import Interpreter

import insitu
from insitu.demo import TARGET, digits
from insitu.training.train import Recipe

data, rate = digits(), np.array([0.002], np.float32)
x, y = data.x_train[:320, ..., ::-1].astype(np.float32), data.y_train[:320].astype(np.int32)  # mirrored: new to the net
learner = insitu.compile(TARGET, precision="float", scheme="last:2", batch=16, recipe=Recipe(optimizer="adam"))
print(learner.export("digits.tflite", to="litert-train"))


def epoch(interpreter: Interpreter) -> float:
    train = interpreter.get_signature_runner("train")
    return float(np.mean([train(x=x[i : i + 16], y=y[i : i + 16], rate=rate)["loss"] for i in range(0, 320, 16)]))


phone = Interpreter("digits.tflite")
print("losses:", [round(epoch(phone), 3) for _ in range(3)])
np.savez("learned.npz", **phone.get_signature_runner("save")())

again = Interpreter("digits.tflite")
again.get_signature_runner("restore")(**np.load("learned.npz"))
assert epoch(again) == epoch(phone)  # it goes on exactly
learner.device.load_arrays(dict(np.load("learned.npz")))  # and back: the names are insitu's own
print("after: ", learner.evaluate(data.x_test[..., ::-1], data.y_test))
