// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package compiled keeps the C programs that tests compile in a folder of the user's cache, as the go command keeps
// packages: the C half of the tests takes half a minute of processor time to compile, most of it under sanitizers.
//
// The key of an entry is a hash of the command, of the compiler's version, of the variables that the
// compiler and make obey, and of all C sources of this module. So a change of any C file compiles all programs anew. The
// path of the source tree is not part of the key: clones share their entries, and a sanitizer's report may name the
// path of the clone that compiled the program.
package compiled

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// sourceFolders hold the C sources of all programs that are kept, relative to the root of the module.
var sourceFolders = []string{"libsingshim", "slurm-spank", "proxyd"}

// variables are those that cc and make obey. GNU make exports the variables of its command line to the tests that it runs.
var variables = []string{
	"CC", "CFLAGS", "CPPFLAGS", "LDFLAGS", "CPATH", "C_INCLUDE_PATH", "LIBRARY_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX",
}

// unusedFor is the time after which an entry that no test has used is removed.
const unusedFor = 5 * 24 * time.Hour

// MakeFiles runs a command in the working folder that makes files of these names in a folder, or copies the files from
// the cache if they were made before by the same command of the same sources. The command writes to no other folder,
// and names the folder by the same path as the argument. The error of a command that fails has the command's output.
// MakeFiles may be called concurrently, by several processes too.
func MakeFiles(folder string, names []string, command ...string) error {
	entry, err := findEntry(folder, names, command)
	if err != nil { // no compiler, or no home for a cache: the command's error says so
		return runCommand(command)
	}
	if err := copyFiles(folder, entry, names, false); err == nil {
		now := time.Now()
		_ = os.Chtimes(entry, now, now) // a cache that cannot be written is used as well
		return nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := runCommand(command); err != nil {
		return err
	}
	removeUnused(filepath.Dir(entry))
	keepFiles(entry, folder, names)
	return nil
}

func runCommand(command []string) error {
	if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil { //nolint:gosec // the caller's own
		return fmt.Errorf("%s: %w\n%s", strings.Join(command, " "), err, out)
	}
	return nil
}

// findEntry returns the folder in the cache for the files of a command.
func findEntry(folder string, names, command []string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	working, err := os.Getwd()
	if err != nil {
		return "", err
	}
	root, err := findRoot(working)
	if err != nil {
		return "", err
	}
	compiler, err := exec.Command("cc", "--version").Output()
	if err != nil {
		return "", err
	}
	header, err := os.Stat("/usr/include/stdio.h") // dated by the C library's release
	if err != nil {
		return "", err
	}
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%d %d\n%s\n%q\n", compiler, header.Size(), header.ModTime().Unix(), strings.TrimPrefix(working, root), names)
	for _, argument := range command {
		fmt.Fprintf(h, "%q\n", strings.ReplaceAll(strings.ReplaceAll(argument, folder, "FOLDER"), root, "ROOT"))
	}
	for _, name := range variables {
		fmt.Fprintf(h, "%s=%q\n", name, os.Getenv(name)) //nolint:forbidigo // the compiler reads them as well
	}
	if err := hashSources(h, root); err != nil {
		return "", err
	}
	return filepath.Join(cache, "singularity-slurm", "compiled", hex.EncodeToString(h.Sum(nil))), nil
}

// findRoot returns the folder with go.mod, above a folder: every test works inside of the module.
func findRoot(folder string) (string, error) {
	for {
		if _, err := os.Stat(filepath.Join(folder, "go.mod")); err == nil {
			return folder, nil
		}
		if folder == filepath.Dir(folder) {
			return "", fmt.Errorf("no go.mod above the working folder: %w", fs.ErrNotExist)
		}
		folder = filepath.Dir(folder)
	}
}

// hashSources adds all C sources of the module to a hash.
func hashSources(h hash.Hash, root string) error {
	for _, folder := range sourceFolders {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !isSource(d) {
				return err
			}
			content, err := os.ReadFile(path)
			fmt.Fprintf(h, "%s %d\n%s", strings.TrimPrefix(path, root), len(content), content)
			return err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// isSource tells whether a file is a source of C programs.
func isSource(d fs.DirEntry) bool {
	switch filepath.Ext(d.Name()) {
	case ".c", ".h", ".s", ".S", ".lds", ".ptx":
		return d.Type().IsRegular()
	}
	return d.Name() == "Makefile"
}

// keepFiles makes an entry of files of a folder. The entry comes to its place by its last step, whole. An entry that
// cannot be made, for want of space for example, is no failure of a test.
func keepFiles(entry, folder string, names []string) {
	if err := os.MkdirAll(filepath.Dir(entry), 0o755); err != nil {
		return
	}
	made, err := os.MkdirTemp(filepath.Dir(entry), "new-")
	if err != nil {
		return
	}
	defer func() { _ = os.RemoveAll(made) }()
	if copyFiles(made, folder, names, true) == nil {
		_ = os.Rename(made, entry) // another process may have made the same entry meanwhile
	}
}

// removeUnused removes the entries that no test has used for some days.
func removeUnused(cache string) {
	entries, err := os.ReadDir(cache)
	if err != nil {
		return
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > unusedFor {
			_ = os.RemoveAll(filepath.Join(cache, e.Name()))
		}
	}
}

// copyFiles copies files with their modes. With sync, the bytes are on the disk before copyFiles returns: an entry of
// the cache is whole after a power cut, or not there.
func copyFiles(to, from string, names []string, sync bool) error {
	for _, name := range names {
		if err := copyFile(filepath.Join(to, name), filepath.Join(from, name), sync); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(to, from string, sync bool) error {
	r, err := os.Open(from)
	if err != nil {
		return err
	}
	defer r.Close()
	info, err := r.Stat()
	if err != nil {
		return err
	}
	w, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(w, r)
	if sync {
		err = errors.Join(err, w.Sync())
	}
	return errors.Join(err, w.Close())
}
