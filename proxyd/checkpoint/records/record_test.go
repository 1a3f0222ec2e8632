// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestParseOptions reads each option as the plugin sends its value.
func TestParseOptions(t *testing.T) {
	for _, k := range []struct {
		key, value string
		want       Options
	}{
		{"singularity", "gpus=2", Options{}}, // as the user wrote the list; its options are sent as well
		{"interval", "600", Options{Interval: 10 * time.Minute}},
		{"gpus", "4-8", Options{GPUs: "4-8"}},
		{"on_failure", "restart", Options{OnFailure: "restart"}},
		{"exact", "yes", Options{Exact: true}},
		{"exact", "no", Options{}},
		{"outside", "refuse", Options{Outside: "refuse"}},
		{"listen", "8888,6006", Options{Listen: []uint16{8888, 6006}, Outside: "relay"}},
		{"exclude", "/a,/b", Options{Exclude: []string{"/a", "/b"}}},
	} {
		got, err := ParseOptions(map[string]string{k.key: k.value})
		if err != nil || !reflect.DeepEqual(got, k.want) {
			t.Errorf("%s=%s: options = %+v, %v; want %+v", k.key, k.value, got, err, k.want)
		}
	}
	if _, err := ParseOptions(map[string]string{"interval": "10m"}); err == nil || err.Error() != `interval="10m": want seconds` {
		t.Errorf("interval=10m: error = %v, want that seconds are wanted", err)
	}
}

// TestParseListen: ports for clients outside imply the relay, and contradict the other two.
func TestParseListen(t *testing.T) {
	for _, k := range []struct{ listen, outside, want string }{
		{"8888", "", "[8888] relay"},
		{"8888,6006", "relay", "[8888 6006] relay"},
		{"", "", "[] "},
		{"8888", "reset", "--singularity-listen: clients come by way of the site's relay"},
		{"8888", "refuse", "--singularity-listen: clients come by way of the site's relay"},
		{"80", "", "want up to 16 ports"},
		{"70000", "", "want up to 16 ports"},
		{"8888,", "", "want up to 16 ports"},
		{"8888" + strings.Repeat(",8888", 16), "", "want up to 16 ports"},
	} {
		o, err := ParseOptions(map[string]string{"listen": k.listen, "outside": k.outside})
		got := fmt.Sprint(o.Listen, " ", o.Outside)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, k.want) {
			t.Errorf("listen=%s outside=%s: %s, want %s", k.listen, k.outside, got, k.want)
		}
	}
}
