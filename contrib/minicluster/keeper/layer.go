// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package keeper

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/contrib/minicluster/host"
	"github.com/singularity-slurm/singularity-slurm/contrib/minicluster/passwd"
	"github.com/singularity-slurm/singularity-slurm/contrib/minicluster/slurmconf"
)

// A host's root has three layers: the suite's tree, which all clusters of this
// machine share; the cluster's layer, which this file writes; and the host's own
// disk. Files are written through an overlay of all layers, so a file for /lib lands in /usr/lib,
// to which Debian's /lib points.

func (c *cluster) layerDir(name string) string {
	return filepath.Join(c.folder.Mounts(), "layer", name)
}

// makeLayer writes the files that all hosts of this cluster have in common.
func (c *cluster) makeLayer() error {
	dir, upper, work := c.layerDir("root"), c.layerDir("upper"), c.layerDir("work")
	for _, d := range []string{dir, upper, work} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	if err := host.Overlay(dir, []string{c.spec.Tree}, upper, work); err != nil {
		return fmt.Errorf("%w (is the kernel's overlay module there?)", err)
	}
	err := c.fillLayer(dir)
	// The overlay is unmounted, because a mounted upper folder must not be a lower folder of another
	// overlay.
	return errors.Join(err, unix.Unmount(dir, 0))
}

// fillLayer writes the tree to be installed first, then the configuration, keys
// and home folders.
func (c *cluster) fillLayer(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := installTree(root, c.spec.Install); err != nil {
		return fmt.Errorf("install %s: %w", c.spec.Install, err)
	}
	files, err := c.spec.slurmCluster().Files()
	if err != nil {
		return err
	}
	for _, f := range slices.Concat(files, c.makeKeys()) {
		if err := putFile(root, f); err != nil {
			return fmt.Errorf("/%s: %w", f.Path, err)
		}
	}
	return c.makeHomes(root)
}

// makeKeys makes new keys for each cluster.
func (c *cluster) makeKeys() []slurmconf.File {
	random := make([]byte, 1024)
	rand.Read(random)
	all := []slurmconf.File{
		{Path: "etc/munge/munge.key", Owner: "munge", Mode: 0o400, Data: random},
		{Path: "etc/slurm/jwt_hs256.key", Owner: "slurm", Mode: 0o600, Data: []byte(rand.Text())},
	}
	if c.spec.Singularity {
		all = append(all, slurmconf.File{Path: "etc/singularity-slurm/key", Mode: 0o400, Data: []byte(rand.Text() + rand.Text())})
	}
	return all
}

func putFile(root *os.Root, f slurmconf.File) error {
	owner := passwd.User{}
	if f.Owner != "" {
		var err error
		if owner, err = passwd.Find(filepath.Join(root.Name(), "etc"), f.Owner); err != nil {
			return err
		}
	}
	if err := makeDirs(root, path.Dir(f.Path)); err != nil {
		return err
	}
	if err := makeRoom(root, f.Path); err != nil {
		return err
	}
	if err := root.WriteFile(f.Path, f.Data, 0o600); err != nil {
		return err
	}
	if err := root.Chown(f.Path, int(owner.UID), int(owner.GID)); err != nil {
		return err
	}
	return root.Chmod(f.Path, fs.FileMode(f.Mode))
}

// makeHomes makes each user's home as passwd names it. Homes are below /shared, so users find the
// same files on every host, as on a real cluster.
func (c *cluster) makeHomes(root *os.Root) error {
	shared := c.folder.Shared()
	if err := os.Chmod(shared, 0o777|fs.ModeSticky); err != nil {
		return err
	}
	people, err := passwd.People(filepath.Join(root.Name(), "etc"))
	if err != nil {
		return err
	}
	for _, u := range people {
		below, err := filepath.Rel("/shared", u.Home)
		if err != nil || !filepath.IsLocal(below) {
			continue
		}
		home := filepath.Join(shared, below)
		if err := os.MkdirAll(home, 0o755); err != nil {
			return err
		}
		if err := os.Chown(home, int(u.UID), int(u.GID)); err != nil {
			return err
		}
	}
	return nil
}

// installTree copies the tree from into root. Folders that root has already keep their
// owner and mode; everything is owned by root, as after `make install`.
func installTree(root *os.Root, from string) error {
	if from == "" {
		return nil
	}
	return filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, p)
		if err != nil || rel == "." {
			return err
		}
		switch {
		case d.IsDir():
			return copyDir(root, p, rel)
		case d.Type() == fs.ModeSymlink:
			return copyLink(root, p, rel)
		case d.Type().IsRegular():
			return copyFile(root, p, rel)
		}
		return fmt.Errorf("%s is neither a file, a folder nor a link", p)
	})
}

func makeDirs(root *os.Root, dir string) error {
	if st, err := root.Stat(dir); err == nil && st.IsDir() {
		return nil
	}
	return root.MkdirAll(dir, 0o755)
}

// copyDir makes a folder as in the tree, unless root has that folder already.
func copyDir(root *os.Root, from, to string) error {
	if st, err := root.Stat(to); err == nil && st.IsDir() {
		return nil
	}
	st, err := os.Stat(from)
	if err != nil {
		return err
	}
	if err := root.Mkdir(to, 0o700); err != nil {
		return err
	}
	return root.Chmod(to, st.Mode()&(fs.ModePerm|fs.ModeSticky|fs.ModeSetgid))
}

func copyLink(root *os.Root, from, to string) error {
	target, err := os.Readlink(from)
	if err != nil {
		return err
	}
	if err := makeRoom(root, to); err != nil {
		return err
	}
	return root.Symlink(target, to)
}

// makeRoom removes a file or an empty folder that is in the place of a new file.
func makeRoom(root *os.Root, path string) error {
	if err := root.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func copyFile(root *os.Root, from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	st, err := in.Stat()
	if err != nil {
		return err
	}
	if err := makeRoom(root, to); err != nil {
		return err
	}
	out, err := root.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	mode := st.Sys().(*syscall.Stat_t).Mode & 0o7777 // FileMode keeps set-user-ID elsewhere
	if err := unix.Fchmod(int(out.Fd()), mode); err != nil {
		return err
	}
	return out.Close()
}
