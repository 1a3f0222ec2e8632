// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Record says how to reach a session. The record is a file in the user's home directory, which the
// login node and the nodes of the job share.
type Record struct {
	Address string // of Serve, with its port
	Token   string
}

// Folder returns the folder of the user's records.
func Folder() (string, error) {
	home, err := os.UserHomeDir()
	return filepath.Join(home, ".singularity-slurm", "sessions"), err
}

func recordPath(job string) (string, error) {
	if _, err := strconv.ParseUint(job, 10, 32); err != nil {
		return "", fmt.Errorf("job %q is not a number", job)
	}
	dir, err := Folder()
	return filepath.Join(dir, job+".json"), err
}

// Save writes a job's record, which only the user can read.
func (r Record) Save(job string) error {
	path, err := recordPath(job)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}

// Load reads a job's record. The error wraps fs.ErrNotExist if the job is no session that has begun.
func Load(job string) (Record, error) {
	var r Record
	path, err := recordPath(job)
	if err != nil {
		return r, err
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(b, &r); err != nil || r.Address == "" || len(r.Token) != tokenSize {
		return r, fmt.Errorf("%s: not the record of a session", path)
	}
	return r, nil
}

// Remove removes a job's record, if there is one.
func Remove(job string) error {
	path, err := recordPath(job)
	if err == nil {
		err = os.Remove(path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Jobs returns the jobs that have records, ordered by number.
func Jobs() ([]string, error) {
	dir, err := Folder()
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var jobs []string
	for _, e := range entries {
		job, ok := strings.CutSuffix(e.Name(), ".json")
		if _, bad := strconv.ParseUint(job, 10, 32); ok && bad == nil {
			jobs = append(jobs, job)
		}
	}
	slices.SortFunc(jobs, func(a, b string) int {
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	})
	return jobs, err
}
