// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
)

var criuVersion = regexp.MustCompile(`(?m)^Version: ([0-9]+)\.([0-9]+)(\S*)`)

// Criu returns the version of the program. A criu that is missing, too old, or does not work on
// this kernel is an *UnsupportedError.
func Criu(ctx context.Context, program string) (version string, err error) {
	out, err := runProgram(ctx, program, "--version")
	if err != nil {
		if !isThere(err) {
			return "", &UnsupportedError{"checkpoints", CriuNeeds, "no " + program}
		}
		return "", err
	}
	version, err = checkCriu(out)
	if err != nil {
		return version, err
	}
	if _, err := runProgram(ctx, program, "check"); err != nil {
		return version, &UnsupportedError{"checkpoints", "that criu check succeeds", err.Error()}
	}
	return version, nil
}

// checkCriu reads the output of criu --version. The error says if that version is too old.
func checkCriu(out string) (version string, err error) {
	m := criuVersion.FindStringSubmatch(out)
	if m == nil {
		return "", fmt.Errorf("criu --version printed %.80q", out)
	}
	version = m[1] + "." + m[2] + m[3]
	major, _ := strconv.Atoi(m[1])
	minor, _ := strconv.Atoi(m[2])
	if major < CriuMajor || major == CriuMajor && minor < CriuMinor {
		return version, &UnsupportedError{"checkpoints", CriuNeeds, "criu " + version}
	}
	return version, nil
}
