"""An ONNX file, quantised to int8 and saved: the loss of accuracy, and the saved memory."""

from pathlib import Path
from tempfile import TemporaryDirectory

import insitu
from insitu.demo import TARGET, digits

data = digits()
model = insitu.load(TARGET)
small = model.quantize(data.x_train[:200])

for name, m in {"float": model, "int8": small}.items():
    right = m.predict(data.x_test).argmax(axis=1) == data.y_test
    print(f"{name:<6} {100 * right.mean():.2f} % right, {m.device.info()}")

with TemporaryDirectory() as folder:
    path = small.save(Path(folder) / "digits.insitu")
    again = insitu.load(path)
    print("saved and loaded:", str(again.graph) == str(small.graph), f"({path.stat().st_size:,} bytes)")
