"""The C program that trains a model, in a folder that builds as it is: generated files, kernels and headers."""

import sys
from pathlib import Path

import insitu
from insitu.demo import TARGET, digits

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "digits_c")
learner = insitu.compile(TARGET, data=digits().x_train[:200], scheme="last:2")
written = learner.write(folder)

print(f"{len(written)} files in {folder}; the interface is {folder / 'net.h'}")
print(f"cc -std=c99 -O2 -ffp-contract=off -I{folder} {folder}/*.c {folder}/kernels/*/*.c your_main.c")
info = learner.info()
print(f"{info['arena_bytes']:,} bytes of arena, {info['state_bytes']:,} of state, {info['const_bytes']:,} of constants")
