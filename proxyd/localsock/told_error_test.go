// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package localsock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"
)

// TestToldError: another process's error has its number on this side too, and is no error about a file here.
func TestToldError(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want syscall.Errno
	}{
		{&fs.PathError{Op: "open", Path: "/home/a", Err: syscall.ESTALE}, syscall.ESTALE},
		{fmt.Errorf("dial: %w", context.DeadlineExceeded), syscall.ETIMEDOUT},
		{&fs.PathError{Op: "open", Path: "/home/a", Err: syscall.ENOENT}, syscall.ENOENT},
		{errors.New("open /home/connection refused"), 0},
	} {
		b, err := json.Marshal(ToldError{tt.err.Error(), FindErrno(tt.err)})
		if err != nil {
			t.Fatal(err)
		}
		var got ToldError
		if err := json.Unmarshal(b, &got); err != nil {
			t.Fatal(err)
		}
		if got.Error() != tt.err.Error() || got.Errno != tt.want || tt.want != 0 && !errors.Is(&got, tt.want) {
			t.Errorf("%v arrived as %v with the number %d, want %d", tt.err, &got, got.Errno, tt.want)
		}
		if errors.Is(&got, fs.ErrNotExist) || errors.Is(&got, syscall.EPERM) {
			t.Errorf("%v is an error of this process, or has another number", &got)
		}
	}
}
