// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// nestedVariable says that the kit runs over a software GPU already.
const nestedVariable = "GPU_KIT_NESTED"

// The software GPUs, and where the memory of each lies. Device servers over them take addresses from 8 TiB on as they do of a
// driver; programs without address space randomisation are at 85 TiB.
const (
	nestedGPUs      = 2
	nestedAddresses = "8T+36T"
)

// enterNested executes the kit again, with software GPUs where programs look for a driver. enterNested returns if --nested is not
// asked for, or if the kit is there already.
func (o *options) enterNested(self string, args []string) error {
	// The environment is how a program of `proxyd run` learns of its devices; this is a main, which may read the environment.
	if _, there := os.LookupEnv(nestedVariable); !o.nested || there {
		return nil
	}
	proxyd := filepath.Join(filepath.Dir(self), "proxyd")
	command := append([]string{proxyd, "run", "--soft", fmt.Sprint(nestedGPUs), "--addresses", nestedAddresses, "--", self}, args...)
	return fmt.Errorf("%s: %w", proxyd, unix.Exec(proxyd, command, append(os.Environ(), nestedVariable+"=1")))
}

// isSlow tells whether kernels run on processors.
func (o *options) isSlow() bool { return o.soft || o.nested }
