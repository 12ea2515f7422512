// Azure's client of Data Lake Storage for Go: directories, files, renames, lists and access control.
package main

import (
	"bytes"
	"context"
	"io"
	"log"
	"math/rand"
	"os"
	"reflect"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azdatalake/datalakeerror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azdatalake/file"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azdatalake/filesystem"
)

const user = "11111111-1111-1111-1111-111111111111"

var always = context.Background()

func main() {
	client := must(filesystem.NewClientFromConnectionString(os.Getenv("AZURE_STORAGE_CONNECTION_STRING"), os.Args[1], nil))
	must(client.Create(always, nil))
	data(client)
	accessControl(client)
	moves(client)
	must(client.Delete(always, nil))
}

func data(client *filesystem.Client) {
	must(client.NewDirectoryClient("a/b").Create(always, nil))
	content := make([]byte, 9<<20)
	rand.New(rand.NewSource(1)).Read(content)
	one := client.NewFileClient("a/b/été 1")
	must(one.Create(always, nil))
	check(one.UploadBuffer(always, content, &file.UploadBufferOptions{ChunkSize: 1 << 20, Concurrency: 4}))
	stream := must(one.DownloadStream(always, nil))
	require(bytes.Equal(must(io.ReadAll(stream.Body)), content), "content")
	part := make([]byte, 100)
	must(one.DownloadBuffer(always, part, &file.DownloadBufferOptions{Range: &file.HTTPRange{Offset: 5_000_000, Count: 100}}))
	require(bytes.Equal(part, content[5_000_000:5_000_100]), "a range")
	must(one.SetMetadata(always, map[string]*string{"Lake": to.Ptr("blue")}, nil))
	properties := must(one.GetProperties(always, nil))
	require(*properties.ContentLength == int64(len(content)) && *properties.Metadata["Lake"] == "blue", "properties")
	_, err := client.NewFileClient("missing").GetAccessControl(always, nil)
	require(datalakeerror.HasCode(err, datalakeerror.PathNotFound), "a missing path", err)
}

func accessControl(client *filesystem.Client) {
	one := client.NewFileClient("a/b/été 1")
	acl := "user::rwx,group::r-x,other::--x"
	must(one.SetAccessControl(always, &file.SetAccessControlOptions{ACL: &acl}))
	require(*must(one.GetAccessControl(always, nil)).ACL == acl, "an access control list")
	changed := must(client.NewDirectoryClient("a").UpdateAccessControlRecursive(always, "user:"+user+":r-x", nil))
	require(*changed.DirectoriesSuccessful == 2 && *changed.FilesSuccessful == 1, "counts", changed)
	found := *must(one.GetAccessControl(always, nil)).ACL
	require(bytes.Contains([]byte(found), []byte(user)), "a list set recursively", found)
}

func moves(client *filesystem.Client) {
	must(client.NewFileClient("a/b/été 1").Rename(always, "a/b/two", nil))
	must(client.NewDirectoryClient("a/b").Rename(always, "a/c", nil))
	require(reflect.DeepEqual(list(client), []string{"a", "a/c", "a/c/two"}), "a list", list(client))
	_, err := client.NewFileClient("missing").Rename(always, "new", nil)
	require(datalakeerror.HasCode(err, "SourcePathNotFound"), "a rename of what is missing", err)
	must(client.NewDirectoryClient("a").Delete(always, nil))
	require(len(list(client)) == 0, "a list after a deletion", list(client))
}

func list(client *filesystem.Client) (names []string) {
	for pager := client.NewListPathsPager(true, nil); pager.More(); {
		for _, path := range must(pager.NextPage(always)).Paths {
			names = append(names, *path.Name)
		}
	}
	return names
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		log.Panic(err)
	}
}

func require(holds bool, what ...any) {
	if !holds {
		log.Panic(what...)
	}
}
