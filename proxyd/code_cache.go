// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/singularity-slurm/singularity-slurm/proxyd/config"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu/codecache"
)

// codeOff is the value of --code-cache with which machine code is not kept.
const codeOff = "off"

const codeHelp = "keep the machine code of kernels of software GPUs in `FOLDER` for later runs, at most 256 MiB, or off; a folder that\n" +
	"belongs to another user or that other users may enter is refused\n" +
	"(default: singularity-slurm/code in XDG_CACHE_HOME or ~/.cache)"

// openCodeCache opens the folder for machine code; nil: machine code is not kept. A folder that was named has to be
// usable; the default folder is used if possible.
//
// The device server of a job keeps none: other processes of the user may neither trace that server nor write into its
// memory (package life), and through a folder that they can write to they could.
func (o *deviceOptions) openCodeCache() (softgpu.CodeStore, error) {
	if o.gate >= 0 || o.code == codeOff || o.kernels == softgpu.InterpretedKernels {
		return nil, nil
	}
	named := o.code != ""
	folder, err := o.codeFolder()
	var c *codecache.Cache
	if err == nil {
		c, err = openCodeFolder(folder)
	}
	switch {
	case err == nil:
		return c, nil
	case named:
		return nil, fmt.Errorf("--code-cache: %w", err)
	default:
		o.openLog().Info("machine code of kernels is not kept for later runs", "error", err)
		return nil, nil
	}
}

// warnOfInterpretation says once, at the start of the daemon, that the node's software GPUs will be slow.
func warnOfInterpretation(d config.Devices, check func() error, log *slog.Logger) {
	if d.Kind != "soft" || d.Kernels != softgpu.CompiledKernels {
		return
	}
	if err := check(); err != nil {
		log.Warn("software GPUs interpret all kernels on this node, many times slower than as machine code", "error", err)
	}
}

// codeFolder returns the folder for machine code. A home that does not exist is not made.
func (o *deviceOptions) codeFolder() (string, error) {
	if o.code != "" {
		return filepath.Abs(o.code)
	}
	cache, err := os.UserCacheDir()
	if err == nil {
		_, err = os.Stat(filepath.Dir(cache))
	}
	return filepath.Join(cache, "singularity-slurm", "code"), err
}

// openCodeFolder opens a folder for the machine code that this build of the program makes.
func openCodeFolder(folder string) (*codecache.Cache, error) {
	version, err := codecache.ReadVersion("/proc/self/exe")
	if err != nil {
		return nil, err
	}
	return codecache.Open(folder, version, codecache.DefaultLimit)
}
