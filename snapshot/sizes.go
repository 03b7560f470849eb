package snapshot

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ParseSize reads a number of bytes with a unit, as 512MiB, 4G or 1000000. The
// units K, M, G and T count by 1024, with or without iB; KB, MB, GB and TB by
// 1000.
func ParseSize(text string) (int64, error) {
	digits := strings.TrimRight(text, "KMGTiB ")
	unit := strings.TrimSpace(text[len(digits):])
	n, err := strconv.ParseFloat(digits, 64)
	if err != nil || n < 0 || math.IsNaN(n) {
		return 0, fmt.Errorf("%q is no size like 512MiB", text)
	}
	factor, ok := map[string]float64{"": 1, "B": 1, "K": 1 << 10, "KiB": 1 << 10, "M": 1 << 20, "MiB": 1 << 20, "G": 1 << 30, "GiB": 1 << 30, "T": 1 << 40, "TiB": 1 << 40,
		"KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}[unit]
	if !ok || n*factor >= 1<<62 {
		return 0, fmt.Errorf("%q is no size like 512MiB", text)
	}
	return int64(n * factor), nil
}

// SizeText is the reverse: the largest unit that is whole.
func SizeText(n int64) string { return strings.Replace(byteCount(n), " ", "", 1) }
