package handoff

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"
)

// maxRecord bounds a record: 100,000 test results are about 8 MiB.
const maxRecord = 16 << 20

// strict decodes JSON into the struct that v points to. encoding/json takes
// the last of duplicate keys, fields in any letter case, trailing text and
// broken UTF-8; each of these would let two readers see two records.
func strict(data []byte, v any) error {
	if len(data) > maxRecord {
		return fmt.Errorf("%d bytes, want at most %d", len(data), maxRecord)
	}
	if !utf8.Valid(data) {
		return fmt.Errorf("invalid UTF-8 at byte %d", invalidAt(data))
	}
	w := walker{dec: json.NewDecoder(bytes.NewReader(data))}
	w.dec.UseNumber()
	// A lone surrogate decodes to U+FFFD as well; a real one is in the bytes.
	w.replaced = bytes.Contains(data, []byte("\uFFFD")) || bytes.Contains(bytes.ToLower(data), []byte(`\ufffd`))
	if err := w.value(reflect.TypeOf(v).Elem(), ""); err != nil {
		return err
	}
	end := w.dec.InputOffset()
	if rest := bytes.TrimLeft(data[end:], " \t\r\n"); len(rest) > 0 {
		return fmt.Errorf("text after the object at byte %d", len(data)-len(rest))
	}
	if err := json.Unmarshal(data, v); err != nil {
		return err
	}
	return nil
}

func invalidAt(data []byte) int {
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return len(data)
}

// walker reads tokens beside the type they must fit.
type walker struct {
	dec      *json.Decoder
	replaced bool
}

func (w *walker) fail(path, format string, args ...any) error {
	if path == "" {
		path = "top"
	}
	return fmt.Errorf("%s at byte %d: %s", path, w.dec.InputOffset(), fmt.Sprintf(format, args...))
}

func (w *walker) token(path string) (json.Token, error) {
	tok, err := w.dec.Token()
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, w.fail(path, "%v", err)
	}
	if s, ok := tok.(string); ok && !w.replaced && strings.ContainsRune(s, utf8.RuneError) {
		return nil, w.fail(path, "lone surrogate")
	}
	return tok, nil
}

var timeType = reflect.TypeFor[time.Time]()

func (w *walker) value(t reflect.Type, path string) error {
	tok, err := w.token(path)
	if err != nil {
		return err
	}
	if tok == nil {
		switch t.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			return nil
		}
		return w.fail(path, "null")
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	delim, isDelim := tok.(json.Delim)
	switch {
	case t.Kind() == reflect.Struct && t != timeType:
		if delim != '{' {
			return w.fail(path, "want an object")
		}
		return w.object(path, func(key string) (reflect.Type, error) { return field(t, key) })
	case t.Kind() == reflect.Map:
		if delim != '{' {
			return w.fail(path, "want an object")
		}
		return w.object(path, func(string) (reflect.Type, error) { return t.Elem(), nil })
	case t.Kind() == reflect.Slice:
		if delim != '[' {
			return w.fail(path, "want an array")
		}
		return w.array(t.Elem(), path)
	case isDelim:
		return w.fail(path, "want one value, not %q", delim)
	}
	return w.scalar(t, tok, path)
}

// scalar names the place that json.Unmarshal would only name by Go's field.
func (w *walker) scalar(t reflect.Type, tok json.Token, path string) error {
	ok, want := false, "a string"
	switch tok := tok.(type) {
	case string:
		ok = t.Kind() == reflect.String || t == timeType
		if t == timeType {
			if _, err := time.Parse(time.RFC3339Nano, tok); err != nil {
				return w.fail(path, "%q is no RFC 3339 time", tok)
			}
		}
	case bool:
		ok = t.Kind() == reflect.Bool
	case json.Number:
		_, err := tok.Int64()
		ok = err == nil && (t.Kind() == reflect.Int || t.Kind() == reflect.Int64)
	}
	switch t.Kind() {
	case reflect.Bool:
		want = "true or false"
	case reflect.Int, reflect.Int64:
		want = "an integer"
	}
	if !ok {
		return w.fail(path, "want %s", want)
	}
	return nil
}

func (w *walker) object(path string, typeOf func(string) (reflect.Type, error)) error {
	seen := map[string]bool{}
	for w.dec.More() {
		tok, err := w.token(path)
		if err != nil {
			return err
		}
		key, ok := tok.(string)
		if !ok {
			return w.fail(path, "want a key")
		}
		if seen[key] {
			return w.fail(path, "duplicate key %q", key)
		}
		seen[key] = true
		t, err := typeOf(key)
		if err != nil {
			return w.fail(path, "%v", err)
		}
		if err := w.value(t, join(path, key)); err != nil {
			return err
		}
	}
	_, err := w.token(path)
	return err
}

func (w *walker) array(elem reflect.Type, path string) error {
	for i := 0; w.dec.More(); i++ {
		if err := w.value(elem, fmt.Sprintf("%s[%d]", path, i)); err != nil {
			return err
		}
	}
	_, err := w.token(path)
	return err
}

// field finds the struct field of a JSON key, spelt exactly.
func field(t reflect.Type, key string) (reflect.Type, error) {
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name == key {
			return t.Field(i).Type, nil
		}
		if strings.EqualFold(name, key) {
			return nil, fmt.Errorf("field %q is spelt %q", key, name)
		}
	}
	return nil, fmt.Errorf("unknown field %q", key)
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
