"""insitu as scikit-learn estimators: in a Pipeline, in cross_val_score, in a grid search.

    from insitu.sklearn import DeviceClassifier
    DeviceClassifier().fit(X, y).predict(X)                 a small network of its own, for tables
    DeviceClassifier(model="net.onnx", scheme="last:2")     a network that you have
    DeviceRegressor().fit(X, y).predict(X)                  one quantity, or several

The generated C is trained; `learner_` is the learner behind it.
"""

from insitu.sklearn.classifier import DeviceClassifier
from insitu.sklearn.regressor import DeviceRegressor

__all__ = ["DeviceClassifier", "DeviceRegressor"]
