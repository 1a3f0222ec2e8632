// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"fmt"
	"strings"
	"testing"
)

// TestMetaVersion: a description with devices is refused by a version that knows of none, and a description without is read by every version. What is newer
// is refused here.
func TestMetaVersion(t *testing.T) {
	for _, c := range []struct {
		devices *DeviceMeta
		want    int
	}{{nil, 1}, {&DeviceMeta{Kind: "soft"}, 2}} {
		m := &Meta{Capsules: []CapsuleMeta{{}, {Devices: c.devices}}}
		for range 2 { // it may be tried again, with other nodes
			b, err := m.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(string(b), fmt.Sprintf(`{"version":%d,`, c.want)) {
				t.Errorf("devices %v: encoded as %.20s", c.devices, b)
			}
			back, err := DecodeMeta(b)
			if err != nil || (back.Capsules[1].Devices != nil) != (c.devices != nil) {
				t.Errorf("devices %v: %v", c.devices, err)
			}
		}
	}
	if m, err := DecodeMeta([]byte(`{"version":1,"capsules":[{"devices":{"kind":"soft"}}]}`)); err != nil || m.Capsules[0].Devices == nil {
		t.Errorf("older version with devices: %v", err)
	}
	for _, version := range []int{0, 3} {
		_, err := DecodeMeta(fmt.Appendf(nil, `{"version":%d}`, version))
		if want := fmt.Sprintf("is of version %d; this proxyd reads versions 1 to 2", version); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v", err)
		}
	}
}
