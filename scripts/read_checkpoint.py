#!/usr/bin/env python3
"""Shows the weights of a checkpoint with h5py, as if nothing were sharded.

    scripts/read_checkpoint.py OUTPUT_DIR/checkpoints/step-00000100 [TENSOR]

Without TENSOR: one line for each weight: name, shape, mean, standard deviation. With it: its values, as text.
"""
import pathlib
import sys

import h5py
import numpy


def main(folder, tensor=None):
    with h5py.File(pathlib.Path(folder) / "model.h5", "r") as model:
        if tensor is not None:
            numpy.savetxt(sys.stdout, model[tensor][()].reshape(model[tensor].shape[0], -1), fmt="%.9g")
            return
        print("step", model.attrs["step"])
        for name, weight in model.items():
            values = weight[()]
            print(f"{name} {list(values.shape)} mean {values.mean(dtype=float):.6g} std {values.std(dtype=float):.6g}")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main(*sys.argv[1:])
