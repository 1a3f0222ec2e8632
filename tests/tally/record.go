// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// appendTo adds the count to a file of records, as a line. If path is "", appendTo does nothing.
func (c count) appendTo(path string) error {
	if path == "" {
		return nil
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(file, c)
	return errors.Join(err, file.Close())
}

// sumRecords adds up the records of a number of runs. A run without a record did not come to its end: it
// counts as failed.
func sumRecords(path string, runs int) count {
	var total count
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintln(os.Stderr, "tally:", err)
	}
	for line := range strings.Lines(string(text)) {
		var c count
		if _, err := fmt.Sscanf(line, "%d passed, %d failed, %d unsteady, %d skipped", &c.passed, &c.failed, &c.unsteady, &c.skipped); err != nil {
			fmt.Fprintf(os.Stderr, "tally: %s: %q is no count\n", path, strings.TrimSpace(line))
			continue
		}
		total.addCount(c)
		runs--
	}
	total.failed += max(0, runs)
	return total
}
