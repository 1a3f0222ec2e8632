#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: HDF5: chunked, compressed data sets that grow, attributes, groups, the file closed and opened again, read back in slices
# Needs: python3-h5py
#SBATCH --job-name=hdf5-append --ntasks=1 --output=log
set -eu
cat >series.py <<'PY'
import hashlib, time
import h5py
import numpy as np

print("begins", flush=True)
rng = np.random.default_rng(4)
h = hashlib.sha256()
with h5py.File("data.h5", "w") as f:
    f.create_dataset("series", (0, 64), maxshape=(None, 64), chunks=(16, 64), dtype="f8", compression="gzip", shuffle=True)
    f.create_dataset("names", (0,), maxshape=(None,), dtype=h5py.string_dtype())
for part in range(4):
    with h5py.File("data.h5", "r+") as f:
        series, names = f["series"], f["names"]
        for turn in range(part * 20, part * 20 + 20):
            series.resize(((turn + 1) * 16, 64))
            series[turn * 16 :] = rng.standard_normal((16, 64)).cumsum(0)
            names.resize((turn + 1,))
            names[turn] = f"turn {turn}"
            group = f.create_group(f"turns/{turn:03}")
            group.attrs["mean"] = series[: (turn + 1) * 16 : 7, 3].mean()
            group.create_dataset("picture", data=rng.integers(0, 255, (32, 32), dtype="u1"), chunks=True, fletcher32=True)
            h.update(series[turn * 8 : turn * 8 + 16].tobytes() + names[turn // 2])
            f.flush()
            time.sleep(0.09)
    print("part", part + 1, h.hexdigest()[:20], flush=True)
with h5py.File("data.h5") as f:
    print(f["series"].shape, f["series"][:].sum().hex(), sum(g.attrs["mean"] for g in f["turns"].values()).hex())
PY
python3 series.py
sha256sum data.h5
