import java.io.FileNotFoundException;
import java.io.IOException;
import java.net.URI;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/** Hadoop's driver WASB, which keeps a file system in blobs: what jobs do with files and directories. */
public class Wasb {
    static FileSystem files;

    public static void main(String[] arguments) throws Exception {
        var host = arguments[0];
        var configuration = new Configuration();
        configuration.set("fs.wasb.impl", "org.apache.hadoop.fs.azure.NativeAzureFileSystem");
        configuration.set("fs.azure.account.key." + host, arguments[2]);
        configuration.set("fs.azure.page.blob.dir", "/pages");
        configuration.set("fs.azure.block.blob.with.compaction.dir", "/logs");
        configuration.set("fs.azure.enable.append.support", "true");
        configuration.set("fs.azure.skip.metrics", "true");
        files = FileSystem.newInstance(new URI("wasb://" + arguments[1] + "@" + host + "/"), configuration);
        readsAndWrites();
        flushes();
        directories();
        commit();
        files.close();
    }

    static void readsAndWrites() throws IOException {
        var path = new Path("/a/b/file 1");
        var content = new byte[9 << 20];
        new Random(1).nextBytes(content);
        try (var stream = files.create(path)) {
            stream.write(content);
        }
        var back = new byte[content.length];
        try (var stream = files.open(path)) {
            stream.readFully(0, back);
            require(Arrays.equals(back, content), "content");
            for (int at : new int[] {5_000_000, 17, content.length - 1}) {
                stream.seek(at);
                require(stream.read() == (content[at] & 255), "a byte after a seek");
            }
        }
        try (var stream = files.append(path)) {
            stream.write("more".getBytes());
        }
        var status = files.getFileStatus(path);
        require(status.getLen() == content.length + 4 && status.isFile(), "the length after an append");
        throwsError(FileAlreadyExistsException.class, () -> files.create(path, false));
        throwsError(FileNotFoundException.class, () -> files.open(new Path("/missing")));
    }

    /** What a log needs: each entry is stored as it is flushed, in a block or in a page. */
    static void flushes() throws IOException {
        for (var path : List.of(new Path("/logs/one"), new Path("/pages/one"))) {
            try (var stream = files.create(path)) {
                for (int count = 1; count <= 3; count++) {
                    stream.write("entry\n".getBytes());
                    stream.hflush();
                }
            }
            try (var stream = files.open(path)) {
                require(new String(stream.readAllBytes()).equals("entry\n".repeat(3)), "content of " + path);
            }
        }
        require(files.delete(new Path("/logs"), true) && files.delete(new Path("/pages"), true), "deletions");
    }

    static void directories() throws IOException {
        require(files.mkdirs(new Path("/a/empty")), "mkdirs");
        require(find("/").equals(List.of("/a/b/file 1")), "files: " + find("/"));
        require(children("/a").equals(List.of("/a/b", "/a/empty")), "children: " + children("/a"));
        require(files.rename(new Path("/a"), new Path("/c")), "a rename of a directory");
        require(!files.exists(new Path("/a")) && files.getFileStatus(new Path("/c/empty")).isDirectory(), "what moved");
        require(files.rename(new Path("/c/b/file 1"), new Path("/c/empty")), "a rename into a directory");
        require(find("/c").equals(List.of("/c/empty/file 1")), "files: " + find("/c"));
        require(!files.rename(new Path("/missing"), new Path("/new")), "a rename of what is missing");
        throwsError(IOException.class, () -> files.delete(new Path("/c"), false));
        require(files.delete(new Path("/c"), true) && children("/").isEmpty(), "a deletion of a directory");
    }

    /** Tasks write beside each other below a temporary directory, and the job renames what they wrote. */
    static void commit() throws Exception {
        var pool = Executors.newFixedThreadPool(8);
        var tasks = new ArrayList<Callable<Boolean>>();
        for (int task = 0; task < 40; task++) {
            var name = "part-" + (100 + task);
            tasks.add(() -> {
                var path = new Path("/out/_temporary/" + name + "/" + name);
                try (var stream = files.create(path)) {
                    stream.write(name.getBytes());
                }
                return files.rename(path, new Path("/out/" + name));
            });
        }
        for (var task : pool.invokeAll(tasks)) {
            require(task.get(), "a rename");
        }
        pool.shutdown();
        require(files.delete(new Path("/out/_temporary"), true), "a deletion");
        files.create(new Path("/out/_SUCCESS")).close();
        require(files.globStatus(new Path("/out/part-*")).length == 40 && find("/out").size() == 41, "parts: " + find("/out"));
    }

    static List<String> find(String directory) throws IOException {
        var found = new ArrayList<String>();
        for (var all = files.listFiles(new Path(directory), true); all.hasNext();) {
            found.add(all.next().getPath().toUri().getPath());
        }
        found.sort(null);
        return found;
    }

    static List<String> children(String directory) throws IOException {
        return Arrays.stream(files.listStatus(new Path(directory))).map(status -> status.getPath().toUri().getPath()).sorted().toList();
    }

    static void throwsError(Class<? extends Exception> kind, Callable<?> what) {
        try {
            what.call();
        } catch (Exception error) {
            require(kind.isInstance(error), "expected " + kind + ", not " + error);
            return;
        }
        require(false, "expected " + kind);
    }

    static void require(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }
}
