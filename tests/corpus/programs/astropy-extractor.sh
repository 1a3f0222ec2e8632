#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: astropy makes pictures of a sky in FITS files, Source Extractor finds the stars, astropy compares and fits
# Needs: python3-astropy source-extractor
#SBATCH --job-name=astropy-extractor --ntasks=1 --output=log
set -eu
cat >default.param <<'P'
NUMBER
X_IMAGE
Y_IMAGE
FLUX_AUTO
FLAGS
P
cat >sky.py <<'PY'
import hashlib, subprocess
import numpy as np
from astropy import units as u
from astropy.coordinates import SkyCoord
from astropy.io import ascii, fits
from astropy.modeling import fitting, models
from astropy.stats import sigma_clipped_stats
from astropy.table import Table
from astropy.time import Time
from astropy.wcs import WCS

print("starting", flush=True)
rng = np.random.default_rng(4)
wcs = WCS(naxis=2)
wcs.wcs.crpix, wcs.wcs.cdelt, wcs.wcs.crval, wcs.wcs.ctype = [128, 128], [-0.001, 0.001], [150, 2], ["RA---TAN", "DEC--TAN"]
y, x = np.mgrid[:256, :256]
stars = rng.uniform(10, 246, (40, 2))
bright = rng.uniform(500, 4000, 40)
for frame in range(12):
    shift = 0.3 * frame
    sky = rng.normal(100, 5, (256, 256))
    for (sx, sy), b in zip(stars, bright):
        sky += b * np.exp(-((x - sx - shift) ** 2 + (y - sy) ** 2) / 8)
    header = wcs.to_header()
    header["EXPTIME"] = 30 + frame
    fits.HDUList([fits.PrimaryHDU(sky.astype("f4"), header)]).writeto("sky.fits", overwrite=True)
    subprocess.run(["source-extractor", "sky.fits", "-c", "/usr/share/source-extractor/default.sex", "-CATALOG_NAME", "found.cat",
                    "-CATALOG_TYPE", "ASCII_HEAD", "-FILTER", "N", "-STARNNW_NAME", "/usr/share/source-extractor/default.nnw",
                    "-VERBOSE_TYPE", "QUIET"], check=True)
    found = ascii.read("found.cat")
    mean, median, sigma = sigma_clipped_stats(fits.getdata("sky.fits"))
    places = SkyCoord(*wcs.all_pix2world(found["X_IMAGE"], found["Y_IMAGE"], 1), unit="deg")
    truth = SkyCoord(*wcs.all_pix2world(stars[:, 0] + shift, stars[:, 1], 0), unit="deg")
    _, apart, _ = places.match_to_catalog_sky(truth)
    star = fits.getdata("sky.fits")[:, :][int(stars[0, 1]) - 8:int(stars[0, 1]) + 8, int(stars[0, 0]) - 8:int(stars[0, 0]) + 8]
    fit = fitting.LevMarLSQFitter()(models.Gaussian2D(1000, 8, 8) + models.Const2D(100), *np.mgrid[:16, :16][::-1], star)
    when = Time(2460000 + frame, format="jd").iso
    print(when, len(found), f"{median:.4f} {sigma:.4f}", int((apart < 3 * u.arcsec).sum()), f"{fit.x_stddev_0.value:.4f}", flush=True)
    Table({"ra": places.ra.deg.round(6), "flux": found["FLUX_AUTO"]}).write(f"stars.{frame}", format="ascii.ecsv")
PY
python3 -W ignore sky.py
rm -f sky.fits found.cat default.param sky.py
