// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package rootfs

import (
	"context"
	"fmt"
	"os"
	"testing"
)

// ensureArg makes the test binary a program that a test can kill: it calls
// Ensure for forky in the cache folder that follows.
const ensureArg = "rootfs-test-ensure"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == BuilderArg {
		os.Exit(Main(os.Args[2:]))
	}
	if len(os.Args) > 2 && os.Args[1] == ensureArg {
		os.Exit(ensureMain(os.Args[2], os.Args[3:]...))
	}
	os.Exit(m.Run())
}

func ensureMain(cache string, mirror ...string) int {
	o := Options{Suite: suites[0], CacheDir: cache, Progress: func(p Progress) { fmt.Println(p) }}
	if len(mirror) > 0 {
		o.Mirror = mirror[0]
	}
	if _, err := Ensure(context.Background(), o); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}
