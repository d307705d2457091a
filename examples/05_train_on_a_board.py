"""Train in the firmware of a board, on an emulated core, and write the folder that starts from what was learned.

On a board of your own: flash the folder (docs/boards.md), then `learner.on("serial:/dev/ttyACM0")`.
"""

import insitu
from insitu.demo import TARGET, digits

data = digits()
x, y = data.x_train[:40, ..., ::-1], data.y_train[:40]  # mirrored: the network has not seen these
x_test, y_test = data.x_test[:50, ..., ::-1], data.y_test[:50]

learner = insitu.compile(TARGET, data=data.x_train[:200], scheme="last:2", board="nrf52840")
with learner.on("emulator") as board:
    print("before:", board.evaluate(x_test, y_test))
    print(board.fit(x, y, epochs=4, rate=0.05))
    print("after: ", board.evaluate(x_test, y_test))
    files = board.write("trained")

instructions = ", ".join(f"{count:,} a {verb}" for verb, count in learner.instructions().items())
print(f"{len(files)} files in trained; instructions: {instructions}")
