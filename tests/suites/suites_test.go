//go:build suites

// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package suites

import (
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

var (
	folders = flag.String("suites", "", "take suites from `FOLDER`, too: each is a folder with its description beside it")
	table   = flag.String("table", "", "merge the results into the page `FILE`")
	proxyd  = flag.String("proxyd", "../../bin/proxyd", "run programs with this `FILE`")
	rest    = flag.Bool("rest", false, "leave out programs that the page has a row of")
)

// suite is a suite on this machine.
type suite struct {
	name   string
	folder string // a copy in the cache, in which programs are built
	*description
	building sync.Mutex // held by a build: programs of a suite may share built files
}

// TestSuites builds and runs each program of each suite.
func TestSuites(t *testing.T) {
	toolkit, err := fetch("toolkit")
	if err != nil {
		t.Fatal(err)
	}
	cuda := filepath.Join(toolkit, "cuda") // laid out as CUDA_PATH is
	path, err := filepath.Abs(*proxyd)
	if err != nil {
		t.Fatal(err)
	}
	r := &runner{cuda: cuda, proxyd: path}
	cache := filepath.Join(filepath.Dir(filepath.Dir(cuda)), "cuda-suites")
	var merging sync.Mutex
	for _, file := range descriptionFiles(t) {
		name := strings.TrimSuffix(filepath.Base(file), ".suite")
		t.Run(name, func(t *testing.T) {
			s, err := openSuite(file, name, cuda, cache)
			if err != nil {
				t.Fatal(err)
			}
			programs, err := s.findPrograms(os.DirFS(s.folder))
			if err != nil {
				t.Fatal(err)
			}
			before, err := pageBefore()
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range programs {
				t.Run(p.name, func(t *testing.T) {
					if _, ok := before.suiteRows(name).rows[p.name]; ok && *rest {
						t.Skip("the page has a row of it")
					}
					t.Parallel()
					o := r.tryProgram(t.Context(), s, p)
					if p.note != "" {
						o.why = strings.TrimPrefix(o.why+"; "+p.note, "; ")
					}
					t.Logf("%s, by %s, in %.1f s: %s", o.verdict, o.by, o.took.Seconds(), o.why)
					if o.verdict == wrong || o.verdict == hang {
						t.Fail()
					}
					if t.Context().Err() != nil || *table == "" {
						return
					}
					merging.Lock()
					defer merging.Unlock()
					if err := mergeIntoPage(*table, name, s.what, p.name, o); err != nil {
						t.Error(err)
					}
				})
			}
		})
	}
}

// fetch has contrib/cuda-software/fetch download the files that the cache lacks, and returns their folder.
func fetch(what ...string) (string, error) {
	c := exec.Command("../../contrib/cuda-software/fetch", what...)
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("fetch %s: %w", strings.Join(what, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

// descriptionFiles returns the repository's descriptions, and the descriptions in the folder that -suites names.
func descriptionFiles(t *testing.T) []string {
	files, err := filepath.Glob("descriptions/*.suite")
	if err != nil {
		t.Fatal(err)
	}
	if *folders == "" {
		return files
	}
	theirs, err := filepath.Glob(filepath.Join(*folders, "*.suite"))
	if err != nil || len(theirs) == 0 {
		t.Fatalf("%s has no description of a suite (NAME.suite): %v", *folders, err)
	}
	return append(files, theirs...)
}

// pageBefore is the page before a test.
func pageBefore() (page, error) {
	if *table == "" {
		return page{}, nil
	}
	return loadPage(*table)
}

// openSuite reads a suite's description and copies the suite into the cache, into a folder that is named after the
// suite's content. Programs that were built there before are kept.
func openSuite(file, name, cuda, cache string) (*suite, error) {
	d, err := readDescription(file)
	if err != nil {
		return nil, err
	}
	from := strings.ReplaceAll(d.folder, "{cuda}", cuda)
	if from == "" {
		from = strings.TrimSuffix(file, ".suite")
	}
	if from, err = filepath.EvalSymlinks(from); err != nil {
		return nil, err
	}
	hash, err := hashFolder(from)
	if err != nil {
		return nil, err
	}
	s := &suite{name: name, description: d, folder: filepath.Join(cache, name+"-"+hash[:12])}
	if _, err := os.Stat(s.folder); err == nil {
		return s, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, err
	}
	temporary := s.folder + ".new"
	if err := os.RemoveAll(temporary); err != nil {
		return nil, err
	}
	if out, err := exec.Command("cp", "-a", "--no-preserve=ownership", from, temporary).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("copy %s: %w: %s", from, err, out)
	}
	return s, os.Rename(temporary, s.folder)
}

// hashFolder returns a hash of the names and contents of a folder's files.
func hashFolder(folder string) (string, error) {
	h := sha256.New()
	err := filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		fmt.Fprintf(h, "%q %v\n", name, e.Type())
		if !e.Type().IsRegular() {
			return nil
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		n, err := io.Copy(h, f)
		fmt.Fprintln(h, n)
		return err
	})
	return hex.EncodeToString(h.Sum(nil)), err
}
