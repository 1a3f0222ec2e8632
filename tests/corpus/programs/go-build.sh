#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: Go's own tools: modules are built into an empty cache with compilers side by side, tested, vetted, and the program of goroutines runs
# Needs: golang-go
#SBATCH --job-name=go-build --ntasks=1 --output=log
set -eu
export HOME=$(mktemp -d) GOTOOLCHAIN=local GOPROXY=off GOFLAGS='-trimpath -buildvcs=false' GOMAXPROCS=2 CGO_ENABLED=0
echo "building"
mkdir -p swarm/mix
cd swarm
printf 'module example.org/swarm\n\ngo 1.25\n' >go.mod
cat >mix/mix.go <<'GO'
package mix

// Step mixes the bits of a number.
func Step(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
GO
cat >mix/mix_test.go <<'GO'
package mix

import "testing"

func TestStep(t *testing.T) {
	seen := map[uint64]bool{}
	for i := range uint64(200000) {
		seen[Step(i)] = true
	}
	if len(seen) != 200000 {
		t.Error("two numbers are mixed into one")
	}
}

func FuzzStep(f *testing.F) {
	f.Add(uint64(7))
	f.Fuzz(func(t *testing.T, x uint64) {
		if x != 0 && Step(x) == 0 {
			t.Error(x)
		}
	})
}
GO
cat >main.go <<'GO'
package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"example.org/swarm/mix"
)

func main() {
	out, err := os.Create("../numbers")
	if err != nil {
		panic(err)
	}
	tick := time.NewTicker(40 * time.Millisecond)
	for turn := range uint64(100) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		ask, answer := make(chan uint64), make(chan uint64, 8)
		var wg sync.WaitGroup
		for range 200 {
			wg.Go(func() {
				var sum uint64
				for x := range ask {
					sum += mix.Step(x + turn)
				}
				select {
				case answer <- sum:
				case <-ctx.Done():
				}
			})
		}
		go func() {
			for i := range uint64(20000) {
				ask <- i
			}
			close(ask)
			wg.Wait()
			close(answer)
		}()
		var all uint64
		for x := range answer {
			all += x
		}
		cancel()
		fmt.Fprintln(out, turn, all)
		if turn%20 == 19 {
			fmt.Println("turn", turn+1, all)
		}
		<-tick.C
	}
	if err := out.Close(); err != nil {
		panic(err)
	}
}
GO
go build -o ../swarm.1 .
echo "built"
go vet ./...
go test -count=1 ./mix | sed 's/\t[0-9.]*s$//'
../swarm.1
go build -o ../swarm.2 . # from the cache
cmp ../swarm.1 ../swarm.2 && echo "the same program again"
cd ..
sha256sum swarm.1 numbers
go clean -cache
rm -rf "$HOME" swarm.1 swarm.2
