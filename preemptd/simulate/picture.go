// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// Draw draws results as SVG: how busy the GPUs were and how many jobs waited, over time; then the GPU fraction of
// each tier.
func Draw(w io.Writer, results []NamedResult, promised [sdk.Tiers]float64) error {
	c := &canvas{}
	c.addElement(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12" fill="#222">`, width, height)
	c.addElement(`<rect width="%d" height="%d" fill="#fff"/>`, width, height)
	c.addElement(`<title>What became of a trace of jobs, by the way in which the cluster was run</title>`)
	for i, r := range results {
		x := float64(left + i*230)
		c.addElement(`<rect x="%.0f" y="14" width="12" height="12" fill="%s"/>`, x, colourOf(i))
		c.addText(x+18, 24, "start", r.Name)
	}
	span := time.Duration(0)
	most := 0.0
	for _, r := range results {
		span = max(span, r.Makespan)
		for _, s := range r.Course {
			most = max(most, waitingGPUs(s))
		}
	}
	c.drawLines(frame{left, 60, width - left - 30, 170, "GPUs that compute, % of all", 100}, span, results, func(s Sample) float64 { return 100 * s.Busy })
	c.drawLines(frame{left, 290, width - left - 30, 170, "jobs that wait", most}, span, results, waitingGPUs)
	c.drawBars(frame{left, 520, 240, 170, "GPU fraction, %; dashed: what is promised", 100}, results, func(r NamedResult, t sdk.Tier) float64 { return 100 * r.Tiers[t].Fraction }, &promised)
	c.tierBars(frame{left + 340, 520, 240, 170, "wait, 95 % of jobs, minutes", 0}, results, func(r NamedResult, t sdk.Tier) float64 { return r.Tiers[t].Wait.P95.Minutes() })
	c.tierBars(frame{left + 680, 520, 240, 170, "completion, median, minutes", 0}, results, func(r NamedResult, t sdk.Tier) float64 { return r.Tiers[t].Complete.Median.Minutes() })
	c.drawLosses(results)
	c.addElement(`</svg>`)
	_, err := io.WriteString(w, c.String())
	return err
}

const (
	width, height = 1080, 850
	left          = 70
)

// colourOf returns the colours of the results, in their order: they can also be told apart without
// seeing red or green.
func colourOf(i int) string {
	return []string{"#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9"}[i%5]
}

func waitingGPUs(s Sample) float64 {
	sum := 0.0
	for _, n := range s.Waiting {
		sum += n
	}
	return sum
}

// canvas is SVG being written.
type canvas struct{ strings.Builder }

func (c *canvas) addElement(format string, args ...any) { fmt.Fprintf(c, format+"\n", args...) }

// addText writes plain text, and escapes characters that are special in XML.
func (c *canvas) addText(x, y float64, anchor, text string) {
	escaped := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(text)
	c.addElement(`<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`, x, y, anchor, escaped)
}

// frame is the place of a diagram, and the value at its top.
type frame struct {
	x, y, w, h float64
	title      string
	top        float64
}

func (f frame) heightOf(v float64) float64 { return f.y + f.h - f.h*min(v/f.top, 1) }

// drawAxes draws a frame with its title and a scale. top is made a round number.
func (c *canvas) drawAxes(f *frame) {
	f.top = roundUp(f.top)
	c.addText(f.x, f.y-10, "start", f.title)
	for i := range 5 {
		v := f.top * float64(i) / 4
		c.addElement(`<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" stroke="#ddd"/>`, f.x, f.x+f.w, f.heightOf(v), f.heightOf(v))
		c.addText(f.x-6, f.heightOf(v)+4, "end", fmt.Sprintf("%.4g", v))
	}
}

// roundUp is 1, 2, 5 or 10 times a power of ten, at least v.
func roundUp(v float64) float64 {
	if v <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, times := range []float64{1, 2, 5, 10} {
		if times*power >= v {
			return times * power
		}
	}
	return v
}

// drawLines draws a value over time, with a line for each result.
func (c *canvas) drawLines(f frame, span time.Duration, results []NamedResult, of func(Sample) float64) {
	c.drawAxes(&f)
	step := roundStep(span)
	for at := time.Duration(0); at <= span; at += step {
		x := f.x + f.w*at.Seconds()/max(span.Seconds(), 1)
		c.addElement(`<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" stroke="#ddd"/>`, x, x, f.y+f.h, f.y+f.h+4)
		c.addText(x, f.y+f.h+16, "middle", timeLabel(at, step))
	}
	for i, r := range results {
		var points strings.Builder
		for _, s := range r.Course {
			fmt.Fprintf(&points, "%.1f,%.1f ", f.x+f.w*s.Start.Seconds()/max(span.Seconds(), 1), f.heightOf(of(s)))
		}
		c.addElement(`<polyline fill="none" stroke="%s" stroke-width="1.3" points="%s"/>`, colourOf(i), strings.TrimSpace(points.String()))
	}
}

// roundStep is the time from one label of an axis to the next: round, and for eight labels at most.
func roundStep(span time.Duration) time.Duration {
	step := time.Minute
	for _, times := range []int{1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440} {
		if step = time.Duration(times) * time.Minute; span <= 8*step {
			return step
		}
	}
	for span > 8*step {
		step *= 2
	}
	return step
}

func timeLabel(at, step time.Duration) string {
	switch {
	case step < time.Hour:
		return fmt.Sprintf("%d min", int(at.Minutes()))
	case step < 24*time.Hour:
		return fmt.Sprintf("%d h", int(at.Hours()))
	}
	return fmt.Sprintf("%d d", int(at.Hours()/24))
}

// tierBars draws bars on a scale that ends at the largest value.
func (c *canvas) tierBars(f frame, results []NamedResult, of func(NamedResult, sdk.Tier) float64) {
	for _, r := range results {
		for t := range sdk.Tier(sdk.Tiers) {
			f.top = max(f.top, of(r, t))
		}
	}
	c.drawBars(f, results, of, nil)
}

// drawBars draws a value for each tier and result; and a line where each tier's promise is.
func (c *canvas) drawBars(f frame, results []NamedResult, of func(NamedResult, sdk.Tier) float64, promised *[sdk.Tiers]float64) {
	c.drawAxes(&f)
	group := f.w / sdk.Tiers
	bar := 0.8 * group / float64(max(len(results), 1))
	for n, t := range []sdk.Tier{sdk.Premium, sdk.Standard, sdk.Basic} {
		x := f.x + (float64(n)+0.1)*group
		for i, r := range results {
			y := f.heightOf(of(r, t))
			c.addElement(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"><title>%.4g</title></rect>`,
				x+bar*float64(i), y, bar-1, f.y+f.h-y, colourOf(i), of(r, t))
		}
		if promised != nil && promised[t] > 0 {
			y := f.heightOf(100 * promised[t])
			c.addElement(`<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" stroke="#222" stroke-dasharray="4 3"><title>promised</title></line>`, x-4, x+0.8*group+4, y, y)
		}
		c.addText(x+0.4*group, f.y+f.h+16, "middle", t.String())
	}
}

// drawLosses draws GPU time that did no work that counts.
func (c *canvas) drawLosses(results []NamedResult) {
	most := slices.MaxFunc(results, func(a, b NamedResult) int { return cmp.Compare(a.Lost(), b.Lost()) }).Lost().Hours()
	c.addText(left, 745, "start", "GPU-hours lost: full, work done twice; pale, dump and restore")
	scale := float64(width-left-320) / max(most, 1e-9)
	for i, r := range results {
		y := 756 + 22*float64(i)
		redone, still := r.Redone.Hours()*scale, r.Still.Hours()*scale
		c.addElement(`<rect x="%d" y="%.1f" width="%.1f" height="16" fill="%s"/>`, left, y, redone, colourOf(i))
		c.addElement(`<rect x="%.1f" y="%.1f" width="%.1f" height="16" fill="%s" opacity="0.45"/>`, left+redone, y, still, colourOf(i))
		c.addText(left+redone+still+6, y+12, "start", fmt.Sprintf("%s: %.1f, of %d stops", r.Name, r.Lost().Hours(), r.Stops()))
	}
}
