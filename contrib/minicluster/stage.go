// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// stageInstall builds singularity-slurm against a root file system's Slurm and installs it into a
// folder, for the caller to remove, by the administrator's command: make install.
func stageInstall(ctx context.Context, tree string, controller bool) (string, error) {
	source, err := sourceTree()
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "minicluster-stage-")
	if err != nil {
		return "", err
	}
	var said bytes.Buffer
	args := []string{"--no-print-directory", "-j", fmt.Sprint(runtime.NumCPU()), "-C", source, "DESTDIR=" + dir, "PREFIX=/usr", "SPANK_INCLUDE=" + filepath.Join(tree, "usr/include"), "install-node"}
	if controller {
		args = append(args, "install-controller")
	}
	make := exec.CommandContext(ctx, "make", args...)
	make.Stdout, make.Stderr = &said, &said
	if err := make.Run(); err != nil {
		lines := strings.Split(strings.TrimSpace(said.String()), "\n")
		last := strings.Join(lines[max(0, len(lines)-15):], "\n")
		return "", errors.Join(fmt.Errorf("make install in %s: %w\n%s", source, err, last), os.RemoveAll(dir))
	}
	return dir, nil
}

// fetchSoftware returns the folders that hosts have in /opt, by the names that they have there. Missing software is
// fetched.
func (w upOptions) fetchSoftware(ctx context.Context, say *progress) (map[string]string, error) {
	folders := map[string]string{}
	for _, s := range []struct {
		wanted                          bool
		option, name, what, description string
	}{
		{w.torchCUDA, "--with-torch-cuda", "cuda-software", "pytorch", "PyTorch with CUDA (once: 1.4 GB to fetch)"},
		{w.llama, "--with-llama", "cuda-llama", "llama", "llama.cpp with CUDA (once: 0.6 GB to fetch)"},
	} {
		if !s.wanted {
			continue
		}
		say.showLine("looking for " + s.description)
		source, err := sourceTree()
		if err != nil {
			return nil, err
		}
		fetch := exec.CommandContext(ctx, filepath.Join(source, "contrib", "cuda-software", "fetch"), s.what)
		fetch.Stderr = os.Stderr // shows the progress
		out, err := fetch.Output()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.option, err)
		}
		folders[s.name] = strings.TrimSpace(string(out))
	}
	return folders, nil
}

// sourceTree is the tree in which this program was built.
func sourceTree() (string, error) {
	self, err := os.Executable()
	if err == nil {
		self, err = filepath.EvalSymlinks(self)
	}
	if err != nil {
		return "", err
	}
	root := filepath.Join(filepath.Dir(self), "..", "..")
	if _, err := os.Stat(filepath.Join(root, "slurm-spank", "Makefile")); err != nil {
		return "", fmt.Errorf("minicluster was built in no source tree: %s is in none; --singularity, --with-torch-cuda and --with-llama need one", self)
	}
	return root, nil
}
