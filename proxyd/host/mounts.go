// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"os"
	"path/filepath"
	"strings"
)

// missingMount returns the mount point, at or above a path, that is in /etc/fstab and at which nothing is mounted; "":
// there is none.
func missingMount(path string) string {
	table, err := os.ReadFile("/etc/fstab")
	if err != nil {
		return "" // a node may have its mounts from an automounter, or from units of systemd
	}
	mounted, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return ""
	}
	return findMissingMount(path, string(table), string(mounted))
}

// findMissingMount is missingMount for the texts of an fstab and of a mountinfo.
func findMissingMount(path, table, mounted string) string {
	points := map[string]bool{}
	for line := range strings.Lines(mounted) {
		if fields := strings.Fields(line); len(fields) > 4 {
			points[fields[4]] = true
		}
	}
	nearest := ""
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) < 3 || strings.HasPrefix(fields[0], "#") || !filepath.IsAbs(fields[1]) {
			continue
		}
		point := filepath.Clean(fields[1])
		isAbove := point == path || point == "/" || strings.HasPrefix(path, point+"/")
		if isAbove && len(point) > len(nearest) {
			nearest = point
		}
	}
	if points[nearest] {
		return ""
	}
	return nearest
}

// mountCommand returns how a file system is mounted on which path should be: the words of a remedy.
func mountCommand(what, path string) string {
	if point := missingMount(path); point != "" {
		return "mount " + what + ": mount " + point + ", which /etc/fstab has"
	}
	return "mount " + what
}
