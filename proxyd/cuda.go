// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/cuda"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend/cuda/inventory"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/life"
	"github.com/singularity-slurm/singularity-slurm/proxyd/softgpu"
)

// The kinds of devices that a device server can have.
const (
	kindSoft = "soft"
	kindCuda = "cuda"
)

// cudaProgram is this program, linked with the C library: only such a program can open a driver.
const cudaProgram = "proxyd-cuda"

// chooseProcess prepares this process for its kind of devices: another program is executed, or this
// program once more.
func (o *deviceOptions) chooseProcess() error {
	switch o.kind {
	case kindSoft:
		return nil
	case kindCuda:
	default:
		return fmt.Errorf("--kind %q: it is %s or %s; %w", o.kind, kindSoft, kindCuda, errUsage)
	}
	if o.gate >= 0 {
		// The next program, once executed, could not do this for all of its threads.
		if err := life.Renounce(); err != nil {
			return fmt.Errorf("no new privileges: %w", err)
		}
	}
	if cuda.Built {
		return cuda.Settle(o.attempt, func(n int) string { return "--attempt=" + strconv.Itoa(n) })
	}
	return becomeCuda()
}

// becomeCuda executes the program that can open a driver, with the arguments of this program.
func becomeCuda() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	places := []string{filepath.Join(filepath.Dir(self), cudaProgram), filepath.Join(libexec, cudaProgram)}
	for _, place := range places {
		err := unix.Exec(place, os.Args, os.Environ())
		if !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("%s: %w", place, err)
		}
	}
	return fmt.Errorf("%w: there is none at %s", cuda.ErrNoCgo, strings.Join(places, " or "))
}

// openDevices opens the devices. The second result describes the devices that programs are shown, nil: the real
// devices. The third is the number of devices.
func (o *deviceOptions) openDevices() (backend.Backend, []backend.Info, int, error) {
	if o.kind == kindCuda {
		b, err := cuda.Open(cuda.Config{Spaces: len(o.order)})
		if err != nil {
			return nil, nil, 0, fmt.Errorf("real devices: %w", err)
		}
		return b, nil, len(b.Devices()), nil
	}
	cfg, err := o.softConfig()
	if err != nil {
		return nil, nil, 0, err
	}
	if cfg.Compiled, err = o.openCodeCache(); err != nil {
		return nil, nil, 0, err
	}
	b, err := softgpu.New(cfg)
	if err != nil {
		return nil, nil, 0, err
	}
	return b, o.shownDevices(cfg), len(cfg.Memory), nil
}

// gpusCommand shows a machine's real devices.
func gpusCommand() *cobra.Command {
	return &cobra.Command{
		Use: "gpus", Short: "Show which GPUs this machine has, how they are and who uses them, as JSON", Hidden: true, Args: wantArguments(),
		RunE: func(c *cobra.Command, _ []string) error {
			if !cuda.Built {
				return becomeCuda()
			}
			n, err := inventory.Read()
			if err != nil {
				return fmt.Errorf("gpus: %w", err)
			}
			found := struct {
				*inventory.Node
				NCCL    string `json:"nccl"`
				Without string `json:"withoutNCCL,omitempty"` // the reason
			}{Node: n}
			if found.NCCL, err = cuda.NCCL(); err != nil {
				found.Without = err.Error()
			}
			enc := json.NewEncoder(c.OutOrStdout())
			enc.SetIndent("", "  ")
			return enc.Encode(&found)
		},
	}
}
