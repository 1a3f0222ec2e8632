// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/durable"
)

// A kit is the set of our files that a job's programs use: sing-warden, which is the first
// process of each program, sing-srun in place of srun, sing-pmix beside tasks, and the shims. CRIU
// restores a program only with the very files that the program had mapped. So a job keeps the kit
// of its first start while its nodes are updated:
//
//	SHARED/kits/HASH   the kit of each release with which a job began
//	LIB/kits/HASH      this node's copy, which capsules see; an update does not replace it
//	RUN/kit            where capsules see their kit. The node itself has a shim there too, for
//	                   programs outside of capsules that inherit a job's environment
//	…/devices          in each of these, for capsules with devices: the shim that replaces the
//	                   driver, under the names by which programs load a driver.
//	                   On the node itself the plain shim only
//
// So a warden may be older than the plugin and proxyd: messages between them may only be
// extended.
const (
	KitWarden = "sing-warden"
	KitSrun   = "sing-srun"
	kitShim   = "libsingshim.so" // not in every installation
	KitDriver = "libsingshim-device.so"

	// KitScontrol is sing-srun again, in place of scontrol. Kits of older releases do not have it.
	KitScontrol = "sing-scontrol"

	// kitPMIx serves PMIx beside the tasks of srun --mpi=pmix. Wardens and sing-srun look for it beside themselves. Kits
	// of older releases do not have it.
	kitPMIx = "sing-pmix"

	KitDevices = "devices" // a folder of links
)

var kitNames = []string{KitWarden, KitSrun, KitScontrol, kitPMIx, kitShim, KitDriver}

// kitLinks are the links in KitDevices, with their targets.
var kitLinks = map[string]string{
	KitWarden: KitWarden, kitPMIx: kitPMIx, kitShim: KitDriver,
	"libcuda.so.1": KitDriver, "libcuda.so": KitDriver, "libnccl.so.2": KitDriver, "libnvidia-ml.so.1": KitDriver,
}

var kitHashPattern = regexp.MustCompile(`^[0-9a-f]{32}$`)

// Kits are the folders of kits that this node uses.
type Kits struct {
	Shared, Local string // folders of kits, by hash
	CapsuleDir    string // where capsules see their kit; a folder of the node
	Wrapper       string // path of sing-srun in the installation
}

// KeepInstalled copies the installed files as the kit of a job that begins, and returns its
// hash. shim may be "".
func (k Kits) KeepInstalled(warden, shim string) (hash string, err error) {
	from := map[string]string{KitWarden: warden, KitSrun: k.Wrapper, KitScontrol: k.Wrapper}
	if pmix := filepath.Join(filepath.Dir(k.Wrapper), kitPMIx); isThere(pmix) {
		from[kitPMIx] = pmix
	}
	if shim != "" {
		from[kitShim] = shim
		if driver := filepath.Join(filepath.Dir(shim), KitDriver); isThere(driver) {
			from[KitDriver] = driver
		}
	}
	if hash, err = kitHash(from); err != nil {
		return "", err
	}
	for _, dir := range []string{k.Shared, k.Local} {
		if err := copyKit(dir, hash, from); err != nil {
			return "", fmt.Errorf("copy the installed kit: %w", err)
		}
	}
	return hash, nil
}

// OnNode returns this node's copy of a kit, and makes it if needed. It also puts the shim where
// programs outside of capsules find it.
func (k Kits) OnNode(hash string) (string, error) {
	dir, err := k.copyOnNode(hash)
	if err != nil {
		return "", err
	}
	on := filepath.Join(k.CapsuleDir, kitShim)
	if _, err := os.Stat(on); err != nil {
		err = copyExecutable(filepath.Join(dir, kitShim), on)
		if errors.Is(err, fs.ErrNotExist) {
			return dir, nil // the kit has no shim
		}
		if err != nil {
			return "", err
		}
	}
	return dir, linkDeviceFolder(k.CapsuleDir, map[string]string{kitShim: kitShim})
}

// HasDevices tells whether programs of a kit can use devices.
func HasDevices(kit string) bool { return isThere(filepath.Join(kit, KitDriver)) }

func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// linkDeviceFolder makes the folder KitDevices with its links.
func linkDeviceFolder(dir string, links map[string]string) error {
	to := filepath.Join(dir, KitDevices)
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for name, target := range links {
		err := os.Symlink(filepath.Join("..", target), filepath.Join(to, name))
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

func (k Kits) copyOnNode(hash string) (string, error) {
	if !kitHashPattern.MatchString(hash) {
		return "", fmt.Errorf("kit %q", hash)
	}
	here := filepath.Join(k.Local, hash)
	if _, err := os.Stat(here); err == nil {
		return here, nil
	}
	shared := filepath.Join(k.Shared, hash)
	from := map[string]string{}
	for _, name := range kitNames {
		if _, err := os.Stat(filepath.Join(shared, name)); err == nil {
			from[name] = filepath.Join(shared, name)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	if got, err := kitHash(from); err != nil || got != hash {
		return "", errors.Join(fmt.Errorf("%s is damaged", shared), err)
	}
	return here, copyKit(k.Local, hash, from)
}

// RemoveUnused removes this node's copies of the kits with hashes that are not in used.
func (k Kits) RemoveUnused(used map[string]bool) error {
	entries, err := os.ReadDir(k.Local)
	for _, e := range entries {
		if !used[e.Name()] {
			err = errors.Join(err, os.RemoveAll(filepath.Join(k.Local, e.Name())))
		}
	}
	return err
}

// copyKit copies a kit into a folder of kits, atomically.
func copyKit(dir, hash string, from map[string]string) (err error) {
	to := filepath.Join(dir, hash)
	if _, err := os.Stat(to); err == nil {
		return nil
	}
	tmp, err := os.MkdirTemp(dir, ".new-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }() // after success it is renamed already
	for name, path := range from {
		if err := copyExecutable(path, filepath.Join(tmp, name)); err != nil {
			return err
		}
	}
	if from[KitDriver] != "" {
		if err := linkDeviceFolder(tmp, kitLinks); err != nil {
			return err
		}
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return err
	}
	err = os.Rename(tmp, to)
	if errors.Is(err, unix.EEXIST) || errors.Is(err, unix.ENOTEMPTY) {
		return nil // another node was faster
	}
	if err != nil {
		return err
	}
	return durable.SyncFolder(dir)
}

func kitHash(from map[string]string) (string, error) {
	all := sha256.New()
	for _, name := range kitNames {
		path := from[name]
		if path == "" {
			continue
		}
		one := sha256.New()
		f, err := os.Open(path)
		if err != nil {
			return "", err
		}
		_, err = io.Copy(one, f)
		if err = errors.Join(err, f.Close()); err != nil {
			return "", err
		}
		fmt.Fprintf(all, "%s %x\n", name, one.Sum(nil))
	}
	return hex.EncodeToString(all.Sum(nil))[:32], nil
}

// copyExecutable replaces a file by a copy that all users may execute, atomically and durably.
func copyExecutable(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	return durable.Replace(to, func(out *os.File) error {
		_, err := io.Copy(out, in)
		return errors.Join(err, out.Chmod(0o755))
	})
}
