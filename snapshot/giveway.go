package snapshot

import (
	"fmt"
	"io/fs"
	"os"
)

// giveWay removes a folder that a file is to take the place of, where nothing is in it but folders: an empty folder
// that is ignored is in no snapshot, and nobody loses anything with it. Where a file is in it, all stays as it is.
func giveWay(root *os.Root, name string) error {
	folders, err := onlyFolders(root, name, nil)
	if err != nil {
		return err
	}
	for _, f := range folders { // the innermost first
		if err := root.Remove(f); err != nil {
			return err
		}
	}
	return nil
}

func onlyFolders(root *os.Root, name string, found []string) ([]string, error) {
	dir, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	entries, err := dir.ReadDir(-1)
	dir.Close()
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !e.IsDir() {
			return nil, fmt.Errorf("%s: %w", name+"/"+e.Name(), fs.ErrExist)
		}
		if found, err = onlyFolders(root, name+"/"+e.Name(), found); err != nil {
			return nil, err
		}
	}
	return append(found, name), nil
}
