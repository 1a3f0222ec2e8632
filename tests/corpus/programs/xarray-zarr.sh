#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: xarray, Zarr and dask: a made-up climate in chunks of compressed files, appended to, resampled and joined by threads
# Needs: python3-xarray python3-zarr python3-dask python3-netcdf4 python3-pandas
#SBATCH --job-name=xarray-zarr --ntasks=1 --output=log
set -eu
cat >climate.py <<'PY'
import hashlib, shutil, time
import dask
import numpy as np
import pandas as pd
import xarray as xr

dask.config.set(scheduler="threads", num_workers=2)
print("starting", flush=True)

def year(y):
    time_axis = pd.date_range(f"{y}-01-01", periods=120, freq="3D")
    lat, lon = np.arange(-87.5, 90, 5.0), np.arange(0, 360, 10.0)
    wave = np.sin(np.arange(120) / 19 + y)[:, None, None] * np.cos(np.deg2rad(lat))[None, :, None] * 15 + np.sin(lon / 40)[None, None, :]
    return xr.Dataset({"t": (("time", "lat", "lon"), (280 + wave).astype("f4")), "wet": (("time", "lat", "lon"), (wave > 3))},
                      {"time": time_axis, "lat": lat, "lon": lon}).chunk({"time": 30, "lat": 12})

def digest(a):
    return hashlib.sha256(np.ascontiguousarray(np.asarray(a, dtype="f8").round(3)).tobytes()).hexdigest()[:16]

for y in range(2000, 2008):
    data = year(y)
    data.to_zarr("climate.zarr", **({"mode": "w"} if y == 2000 else {"append_dim": "time"}), consolidated=False)
    data.mean("lon").compute().to_netcdf(f"mean.{y}.nc")
    whole = xr.open_zarr("climate.zarr", consolidated=False)
    months = whole.t.resample(time="1MS").mean().compute()
    apart = (whole.t.groupby("time.month") - whole.t.groupby("time.month").mean()).std("time").compute()
    print(y, whole.sizes["time"], digest(months), digest(apart), int(whole.wet.sum().compute()), flush=True)
    time.sleep(0.3)
means = xr.open_mfdataset("mean.*.nc", combine="by_coords")
print("means", dict(means.sizes), digest(means.t.rolling(time=5).mean().isel(time=slice(5, None)).compute()))
lower = whole.t.coarsen(lat=4, lon=4).mean().interp(lat=[0.0, 30.0, 45.5]).compute()
print("interpolated", digest(lower))
PY
python3 -W ignore climate.py
rm -r climate.zarr mean.*.nc climate.py
