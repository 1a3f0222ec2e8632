#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: NCO: NetCDF files of a made-up climate are averaged, cut, joined and computed with, by some 150 programs
# Needs: nco netcdf-bin gawk
#SBATCH --job-name=nco-climate --ntasks=1 --output=log
set -eu
echo "starting"
for month in $(seq -w 12); do
	gawk -v m="$((10#$month))" 'BEGIN {
		print "netcdf m { dimensions: time = UNLIMITED; lat = 18; lon = 36;"
		print "variables: double time(time); float lat(lat); float t(time, lat, lon); t:units = \"K\";"
		printf "data: time = "; for (d = 0; d < 10; d++) printf "%s%d", d ? ", " : "", m * 10 + d
		printf ";\nlat = "; for (y = 0; y < 18; y++) printf "%s%d", y ? ", " : "", y * 10 - 85
		printf ";\nt = "; for (i = 0; i < 6480; i++) printf "%s%.4f", i ? ", " : "", 280 + 20 * sin(i / 7 + m) + i % 13
		print ";\n}"
	}' | ncgen -o "month.$month.nc" -
	ncra -h -O "month.$month.nc" "mean.$month.nc"
	ncap2 -h -O -s 'c = t - 273.15; weight = cos(lat * 3.14159265 / 180.)' "month.$month.nc" work.nc
	ncwa -h -O -a lat,lon -w weight -v c work.nc "global.$month.nc"
	ncks -h -O -d lat,-30.0,30.0 -d time,2,7 "month.$month.nc" tropics.nc
	ncbo -h -O --op_typ=sub "month.$month.nc" month.01.nc difference.nc
	ncdump -v c "global.$month.nc" | sed -n '/^data/,$p' | sha256sum
	ncdump tropics.nc | sha256sum
	ncdump difference.nc | sha256sum
	echo "month $month"
done
ncrcat -h -O global.??.nc year.nc
ncra -h -O --mro -d time,,,30,30 month.??.nc seasons.nc
nces -h -O mean.??.nc ensemble.nc
for file in year seasons ensemble; do ncdump "$file.nc" | sed -n '/^data/,$p' | sha256sum; done
rm ./*.nc
