// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/contrib/minicluster/keeper"
	"github.com/singularity-slurm/singularity-slurm/contrib/minicluster/rootfs"
	"github.com/singularity-slurm/singularity-slurm/contrib/minicluster/state"
)

// Limits of a cluster's size; beyond them Slurm would fail later and less clearly.
const (
	maxNodes = 64
	maxGPUs  = 64
)

// upOptions has the options with which a person calls `up`.
type upOptions struct {
	suite, install, cache, mirror string
	nodes, gpus                   int
	torch, torchCUDA, llama       bool
	corpus                        bool
	singularity, controller       bool
}

func upCommand(at clusterFolder) *cobra.Command {
	var w upOptions
	c := &cobra.Command{
		Use:   "up",
		Short: "Raise the cluster and wait until every node is idle",
		Args:  argumentCount(0, "no arguments"),
		RunE: func(c *cobra.Command, _ []string) error {
			suite, err := w.checkOptions()
			if err != nil {
				return usageError(err)
			}
			p, err := at()
			if err != nil {
				return err
			}
			ctx := c.Context()
			// signal.Notify without signals would mean all signals.
			if s := heededSignals(unix.SIGINT, unix.SIGTERM, unix.SIGHUP); len(s) > 0 {
				var stop func()
				ctx, stop = signal.NotifyContext(ctx, s...)
				defer stop()
			}
			return raiseCluster(ctx, p, suite, w)
		},
	}
	f := c.Flags()
	f.StringVar(&w.suite, "suite", "forky", "run Debian `SUITE`: forky, trixie or bookworm")
	f.IntVar(&w.nodes, "nodes", 2, "raise `N` nodes")
	f.IntVar(&w.gpus, "gpus", 0, "give each node `G` GPUs without hardware; protected jobs find software GPUs there")
	f.StringVar(&w.install, "install", "", "put the tree that make install DESTDIR=`DIR` made into every host")
	f.BoolVar(&w.singularity, "singularity", false, "build singularity-slurm from the source tree that this program is in, and run it on every node")
	f.BoolVar(&w.controller, "controller", false, "run its controller, preemptd, on ctl as well; --singularity is meant by that")
	f.BoolVar(&w.torch, "with-torch", false, "install PyTorch too")
	f.BoolVar(&w.torchCUDA, "with-torch-cuda", false, "have PyTorch with CUDA, cuBLAS and NCCL at /opt/cuda-software on every host: run /opt/cuda-software/python")
	f.BoolVar(&w.llama, "with-llama", false, "have llama.cpp with CUDA and cuBLAS at /opt/cuda-llama on every host: run /opt/cuda-llama/node")
	f.BoolVar(&w.corpus, "with-corpus", false, "install PyTorch and the programs that tests/corpus runs (forky only)")
	f.StringVar(&w.cache, "cache", cmp.Or(os.Getenv("MINICLUSTER_CACHE"), rootfs.DefaultCacheDir), "keep root file systems in `DIR`, or $MINICLUSTER_CACHE")
	f.StringVar(&w.mirror, "mirror", "", "fetch packages from the Debian mirror at `URI` (default: the one in this machine's apt configuration)")
	return c
}

// checkOptions finds wrong options before `up` does any work.
func (w *upOptions) checkOptions() (rootfs.Suite, error) {
	suite, err := rootfs.Lookup(w.suite)
	w.singularity = w.singularity || w.controller
	switch {
	case err != nil:
		return suite, err
	case w.nodes < 1 || w.nodes > maxNodes:
		return suite, fmt.Errorf("--nodes %d: want 1 to %d", w.nodes, maxNodes)
	case w.corpus && !suite.Corpus:
		return suite, fmt.Errorf("--with-corpus: %w", &rootfs.NoCorpusError{Suite: suite.Name})
	case w.singularity && w.install != "":
		return suite, errors.New("--singularity installs the tree that it builds: leave out --install")
	case w.gpus < 0 || w.gpus > maxGPUs:
		return suite, fmt.Errorf("--gpus %d: want 0 to %d", w.gpus, maxGPUs)
	}
	if strings.ContainsAny(w.cache, ":,\\") {
		return suite, fmt.Errorf("--cache %s: overlay mounts cannot have a path with ':', ',' or '\\'", w.cache)
	}
	return suite, w.findInstall()
}

// findInstall makes the path absolute and without links, because the keeper runs in another folder.
func (w *upOptions) findInstall() error {
	if w.install == "" {
		return nil
	}
	abs, err := filepath.Abs(w.install)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return fmt.Errorf("--install %s: not a folder: %w", w.install, err)
	}
	if st, err := os.Stat(abs); err != nil || !st.IsDir() {
		return fmt.Errorf("--install %s: not a folder", w.install)
	}
	w.install = abs
	return nil
}

func raiseCluster(ctx context.Context, p state.Folder, suite rootfs.Suite, w upOptions) (err error) {
	began := time.Now()
	lock, err := p.Take()
	if errors.Is(err, state.ErrRunning) {
		return fmt.Errorf("%w; end it with: minicluster down --name %s", err, p.Name)
	}
	if err != nil {
		return err
	}
	defer lock.Close()
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Remove())
		}
	}()
	if err := p.Clean(); err != nil {
		return err
	}
	if err := roomFor(p.Dir()); err != nil {
		return err
	}
	say := newProgress(os.Stderr)
	defer say.endLine()
	tree, hold, err := heldTree(ctx, rootfs.Options{Suite: suite, Torch: w.torch, Corpus: w.corpus, CacheDir: w.cache, Mirror: w.mirror, Progress: say.showBuild})
	if err != nil {
		return err
	}
	defer hold.Close()
	spec := keeper.Spec{Name: p.Name, Suite: suite.Name, Slurm: suite.Slurm, Nodes: w.nodes, GPUs: w.gpus, Tree: tree, Install: w.install, Singularity: w.singularity, Controller: w.controller}
	if spec.Opt, err = w.fetchSoftware(ctx, say); err != nil {
		return err
	}
	if w.singularity {
		say.showLine("building singularity-slurm for Slurm " + suite.Slurm)
		staged, err := stageInstall(ctx, tree, w.controller)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(staged)) }()
		spec.Install = staged
	}
	if err := keeper.Start(ctx, spec, [2]*os.File{lock, hold}, say.showEvent); err != nil {
		return err
	}
	say.endLine()
	fmt.Fprintf(os.Stderr, "cluster %s is up: %s (Slurm %s), %d nodes, %d GPUs each, in %.1f s\n",
		p.Name, suite.Name, suite.Slurm, w.nodes, w.gpus, time.Since(began).Seconds())
	return nil
}

// roomFor finds a full disk before the daemons do, which would report the lack of space in their
// logs only.
func roomFor(dir string) error {
	const want = 64 << 20
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	if free := s.Bavail * uint64(s.Bsize); free < want {
		return fmt.Errorf("%s: %d MiB free, %d MiB needed for logs and /shared", dir, free>>20, want>>20)
	}
	return nil
}

// heldTree returns a root file system and the hold that keeps the tree from being removed. Before
// the hold, a newer tree may take its place: then heldTree returns the newer tree.
func heldTree(ctx context.Context, o rootfs.Options) (tree string, hold *os.File, err error) {
	for {
		if tree, err = rootfs.Ensure(ctx, o); err != nil {
			return "", nil, err
		}
		hold, err = rootfs.Hold(tree)
		if !errors.Is(err, fs.ErrNotExist) {
			return tree, hold, err
		}
	}
}
