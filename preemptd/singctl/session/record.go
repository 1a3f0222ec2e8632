// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/singularity-slurm/singularity-slurm/proxyd/durable"
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

// Endings of the names of files in Folder.
const (
	recordEnding = ".json"
	noteEnding   = ".submitted" // empty; there from the submission on
	logEnding    = ".log"       // the output of the job's script: why the session could not begin
)

func filePath(job, ending string) (string, error) {
	if _, err := strconv.ParseUint(job, 10, 32); err != nil {
		return "", fmt.Errorf("job %q is not a number", job)
	}
	dir, err := Folder()
	return filepath.Join(dir, job+ending), err
}

// Save writes a job's record, which only the user can read.
func (r Record) Save(job string) error {
	path, err := filePath(job, recordEnding)
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
	return durable.ReplaceUnsynced(path, b)
}

// Load reads a job's record. The error wraps fs.ErrNotExist if the job is no session that has begun.
func Load(job string) (Record, error) {
	var r Record
	path, err := filePath(job, recordEnding)
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

// NoteSubmission notes that a job is a session, which has no record before the job has begun. The
// folder must be there.
func NoteSubmission(job string) error {
	path, err := filePath(job, noteEnding)
	if err != nil {
		return err
	}
	return os.WriteFile(path, nil, 0o600)
}

// IsNoted tells whether a job has a note or a record.
func IsNoted(job string) bool {
	for _, ending := range []string{noteEnding, recordEnding} {
		path, err := filePath(job, ending)
		if err != nil {
			return false
		}
		if _, err := os.Lstat(path); err == nil {
			return true
		}
	}
	return false
}

// Remove removes a job's record and note, if there are any.
func Remove(job string) error {
	return errors.Join(removeFile(job, noteEnding), removeFile(job, recordEnding))
}

// removeFile removes the file of a job with an ending, if the file is there.
func removeFile(job, ending string) error {
	path, err := filePath(job, ending)
	if err == nil {
		err = os.Remove(path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Jobs returns the jobs that have records or notes, ordered by number.
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
		ending := filepath.Ext(e.Name())
		job := strings.TrimSuffix(e.Name(), ending)
		_, bad := strconv.ParseUint(job, 10, 32)
		if (ending == recordEnding || ending == noteEnding) && bad == nil && !slices.Contains(jobs, job) {
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

// maxLog is how much of the end of a log is read.
const maxLog = 4 << 10

// LogEnd returns the last lines of the log of a session's job, at most most, without Slurm's lines on the job's end;
// nil if there is no log.
func LogEnd(job string, most int) []string {
	path, err := filePath(job, logEnding)
	if err != nil {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil && st.Size() > maxLog {
		if _, err := f.Seek(-maxLog, io.SeekEnd); err != nil {
			return nil
		}
	}
	b, err := io.ReadAll(io.LimitReader(f, maxLog))
	b = cancelNotice.ReplaceAll(append(b, '\n'), nil)
	if err != nil || strings.TrimSpace(string(b)) == "" {
		return nil
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return lines[max(0, len(lines)-most):]
}
