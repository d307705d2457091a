"""Transfer learning in ten lines: a new head on a small network, trained by the generated C, saved and loaded."""

import insitu
from insitu.demo import TARGET, digits

data = digits()
x, y = data.x_train, data.y_train

learner = insitu.compile(TARGET, classes=10, data=x[:200], scheme="head")
print("before:", learner.evaluate(data.x_test, data.y_test))
print(learner.fit(x, y, epochs=5, rate=0.05))
print("after: ", learner.evaluate(data.x_test, data.y_test))
learner.save("digits.state")

again = insitu.compile(TARGET, classes=10, data=x[:200], scheme="head")
again.load("digits.state")
assert (again.predict(data.x_test[:9]) == learner.predict(data.x_test[:9])).all()
memory = learner.info()
print(
    f"{memory['arena_bytes']:,} bytes of arena, {memory['state_bytes']:,} of state, {memory['const_bytes']:,} constant"
)
