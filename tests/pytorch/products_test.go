// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package pytorch

import (
	"math"
	"regexp"
	"strconv"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/libsingshim/wire"
)

// result is a number that a program printed as "NAME 1.234567 0x1.3c0ca2p+0". The decimal digits are compared by a tolerance.
var result = regexp.MustCompile(`(?m)^(.*) (\d+\.\d+) (0x\S+)$`)

// compareResults checks that two runs printed numbers of the same names that are close to each other.
func compareResults(t *testing.T, got, want string, tolerance float64) {
	t.Helper()
	mine, theirs := result.FindAllStringSubmatch(got, -1), result.FindAllStringSubmatch(want, -1)
	if len(mine) == 0 || len(mine) != len(theirs) {
		t.Fatalf("by the software GPU:\n%s\nby the vendor's cuBLAS:\n%s", got, want)
	}
	for i := range mine {
		a, errA := strconv.ParseFloat(mine[i][2], 64)
		b, errB := strconv.ParseFloat(theirs[i][2], 64)
		if errA != nil || errB != nil || mine[i][1] != theirs[i][1] || !(math.Abs(a-b) <= tolerance*math.Abs(b)) {
			t.Errorf("by the software GPU %s, by the vendor's cuBLAS %s", mine[i][0], theirs[i][0])
		}
	}
}

// findResult returns the bits of the number of a name.
func findResult(t *testing.T, printed, name string) string {
	t.Helper()
	for _, found := range result.FindAllStringSubmatch(printed, -1) {
		if found[1] == name {
			return found[3]
		}
	}
	t.Fatalf("no number of %s:\n%s", name, printed)
	return ""
}

// TestNativeProducts: models with matrix products by the software GPU itself have the same losses in f32 and in bf16 as
// with the vendor's cuBLAS, except for the order of sums, and the same bits in each run. With -short, the model is a
// perceptron; otherwise also a GPT.
func TestNativeProducts(t *testing.T) {
	learn := []string{"programs/learn.py", "--steps", "4", "mlp"}
	if !testing.Short() {
		learn = append(learn, "gpt")
	}
	native := runPythonWith(t, wire.BlasNative, nil, learn...)
	vendor := runPythonWith(t, wire.BlasVendor, nil, learn...)
	compareResults(t, native, vendor, 2e-3)
	// Sums of 2000 products in f32 show which of the two multiplied. In bf16, rounding hides the order of the sums.
	if name := "product f32"; findResult(t, native, name) == findResult(t, vendor, name) {
		t.Errorf("the bits are those of the vendor's cuBLAS, which therefore has the products:\n%s", native)
	}
	again := append([]string{"programs/learn.py", "--device", "1"}, learn[1:]...)
	if got := runPythonWith(t, wire.BlasNative, nil, again...); got != native {
		t.Errorf("in a second run, on the other device:\n%s\nin the first:\n%s", got, native)
	}
}
