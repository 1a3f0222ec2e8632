// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"errors"
	"fmt"
	"testing"
)

// TestBreakOff: the first reason counts, unless it is only that criu sent no pipe for a stream, which follows from criu's end.
func TestBreakOff(t *testing.T) {
	first, second := errors.New("exit status 1"), errors.New("exit status 2")
	noPipe := fmt.Errorf("image tcp-stream-7.img: %w", errNoPipe)
	for name, tt := range map[string]struct {
		reasons []error
		want    error
	}{
		"one":                     {[]error{first}, first},
		"two":                     {[]error{first, second}, first},
		"no pipe":                 {[]error{noPipe}, noPipe},
		"no pipe, and why":        {[]error{noPipe, first, second}, first},
		"why, and then no pipe":   {[]error{first, noPipe}, first},
		"no pipe, for two images": {[]error{noPipe, errNoPipe, first}, first},
	} {
		s := &criuRun{wake: -1, broken: make(chan struct{})}
		for _, reason := range tt.reasons {
			s.cancelRun(reason)
		}
		if got := s.firstFailure(); !errors.Is(got, tt.want) {
			t.Errorf("%s: broken off for %v, want %v", name, got, tt.want)
		}
		select {
		case <-s.broken:
		default:
			t.Errorf("%s: not broken off", name)
		}
	}
}
