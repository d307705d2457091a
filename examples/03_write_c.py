"""The C program of a model, in a folder: copy it, the kernels it names and the headers to your own build."""

import sys
from pathlib import Path

import insitu
from insitu.demo import TARGET, digits

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "digits_c")
folder.mkdir(parents=True, exist_ok=True)

model = insitu.load(TARGET).quantize(digits().x_train[:200])
program = model.program("digits")
for name, text in program.files.items():
    (folder / name).write_text(text)

print(f"{', '.join(program.files)} in {folder}")
print(f"kernels: {', '.join(program.kernels)}")
print(f"{program.arena_bytes:,} bytes of RAM, {program.const_bytes:,} bytes of constants")
