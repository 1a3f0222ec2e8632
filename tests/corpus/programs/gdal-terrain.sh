#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: GDAL's programs: a made-up terrain is projected, shaded, contoured, cut in tiles and put into databases
# Needs: gdal-bin gawk
#SBATCH --job-name=gdal-terrain --ntasks=1 --output=log
set -eu
gawk 'BEGIN {
	print "ncols 300\nnrows 300\nxllcorner 10\nyllcorner 45\ncellsize 0.002\nNODATA_value -9999"
	for (y = 0; y < 300; y++) {
		for (x = 0; x < 300; x++) printf "%.3f ", 800 + 300 * sin(x / 23) * cos(y / 31) + 120 * sin((x * y) / 2000)
		print ""
	}
}' >terrain.asc
echo "starting"
sum() { gdalinfo -checksum "$1" | sed -n 's/.*Checksum=//p' | tr '\n' ' '; }
gdal_translate -q -a_srs EPSG:4326 -co TILED=YES -co COMPRESS=DEFLATE terrain.asc terrain.tif
for turn in $(seq 6); do
	gdalwarp -q -overwrite -multi -wo NUM_THREADS=2 -r cubic -t_srs "EPSG:$((32630 + turn))" terrain.tif utm.tif
	gdaldem hillshade -q -az $((turn * 45)) utm.tif shade.tif
	gdaldem slope -q utm.tif slope.tif
	gdal_contour -q -a height -i $((20 * turn)) terrain.tif contours.geojson
	ogr2ogr -q -f SQLite -append lines.sqlite contours.geojson -nln "lines$turn"
	gdal_rasterize -q -burn 1 -ts 200 200 -ot Byte contours.geojson burnt.tif
	echo "turn $turn: $(sum utm.tif)$(sum shade.tif)$(sum slope.tif)$(sum burnt.tif)"
	ogrinfo -q -sql "SELECT count(*) AS n, round(max(height)) AS most FROM lines$turn" lines.sqlite | grep ' = '
	rm contours.geojson
	sleep 0.2
done
gdaladdo -q -r average terrain.tif 2 4 8
gdallocationinfo -valonly -wgs84 terrain.tif 10.3 45.3
rm -f ./*.tif* terrain.asc lines.sqlite
