import com.azure.core.util.BinaryData;
import com.azure.storage.blob.BlobContainerClient;
import com.azure.storage.blob.BlobServiceClientBuilder;
import com.azure.storage.blob.models.BlobErrorCode;
import com.azure.storage.blob.models.BlobItem;
import com.azure.storage.blob.models.BlobRange;
import com.azure.storage.blob.models.BlobStorageException;
import com.azure.storage.blob.models.DownloadRetryOptions;
import com.azure.storage.blob.models.PageRange;
import com.azure.storage.blob.models.ParallelTransferOptions;
import com.azure.storage.blob.options.BlobParallelUploadOptions;
import com.azure.storage.blob.sas.BlobSasPermission;
import com.azure.storage.blob.sas.BlobServiceSasSignatureValues;
import com.azure.storage.blob.specialized.BlobLeaseClientBuilder;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.time.OffsetDateTime;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;

/** Azure's client of blobs for Java: each kind of blob, lists, leases, snapshots, copies and SAS. */
public class Blobs {
    static final byte[] CONTENT = new byte[9 << 20];

    public static void main(String[] arguments) throws Exception {
        new Random(1).nextBytes(CONTENT);
        var service = new BlobServiceClientBuilder().connectionString(System.getenv("AZURE_STORAGE_CONNECTION_STRING")).buildClient();
        var container = service.createBlobContainer(arguments[0]);
        blocks(container);
        leasesAndSnapshots(container);
        appendsAndPages(container);
        copies(container);
        container.delete();
        require(!container.exists(), "a deleted container");
    }

    static void blocks(BlobContainerClient container) throws Exception {
        var blob = container.getBlobClient("a/b/été 1");
        var transfer = new ParallelTransferOptions().setBlockSizeLong(1L << 20).setMaxSingleUploadSizeLong(1L << 20).setMaxConcurrency(4);
        var options = new BlobParallelUploadOptions(new ByteArrayInputStream(CONTENT)).setParallelTransferOptions(transfer);
        blob.uploadWithResponse(options.setMetadata(Map.of("lake", "blue")).setTags(Map.of("kind", "test")), null, null);
        require(Arrays.equals(blob.downloadContent().toBytes(), CONTENT), "content");
        var part = new ByteArrayOutputStream();
        blob.downloadStreamWithResponse(part, new BlobRange(5_000_000, 100L), new DownloadRetryOptions(), null, false, null, null);
        require(Arrays.equals(part.toByteArray(), Arrays.copyOfRange(CONTENT, 5_000_000, 5_000_100)), "a range");
        require(blob.getProperties().getMetadata().equals(Map.of("lake", "blue")), "metadata");
        require(blob.getTags().equals(Map.of("kind", "test")), "tags");
        refused(409, BlobErrorCode.BLOB_ALREADY_EXISTS, () -> blob.upload(BinaryData.fromString("again")));
        refused(404, BlobErrorCode.BLOB_NOT_FOUND, () -> container.getBlobClient("missing").downloadContent());
        try (var stream = container.getBlobClient("a/c").getBlockBlobClient().getBlobOutputStream()) {
            stream.write("stream".getBytes());
        }
        require(container.getBlobClient("a/c").downloadContent().toString().equals("stream"), "a stream");
        require(names(container.listBlobsByHierarchy("a/")).equals(List.of("a/b/", "a/c")), "a list of a directory");
    }

    static void leasesAndSnapshots(BlobContainerClient container) {
        var blob = container.getBlobClient("a/c");
        var lease = new BlobLeaseClientBuilder().blobClient(blob).buildClient();
        lease.acquireLease(-1);
        refused(412, BlobErrorCode.LEASE_ID_MISSING, blob::delete);
        lease.releaseLease();
        var snapshot = blob.createSnapshot();
        blob.upload(BinaryData.fromString("later"), true);
        require(snapshot.downloadContent().toString().equals("stream"), "a snapshot");
    }

    static void appendsAndPages(BlobContainerClient container) {
        var log = container.getBlobClient("log").getAppendBlobClient();
        log.create();
        for (var word : List.of("one", "two")) {
            log.appendBlock(new ByteArrayInputStream(word.getBytes()), 3);
        }
        require(log.downloadContent().toString().equals("onetwo"), "an append blob");
        var pages = container.getBlobClient("pages").getPageBlobClient();
        pages.create(4096);
        pages.uploadPages(new PageRange().setStart(512).setEnd(1023), new ByteArrayInputStream(CONTENT, 0, 512));
        var ranges = pages.listPageRanges(new BlobRange(0)).stream().map(item -> item.getRange().getOffset()).toList();
        require(ranges.equals(List.of(512L)), "the ranges of a page blob: " + ranges);
    }

    static void copies(BlobContainerClient container) {
        var source = container.getBlobClient("a/b/été 1");
        var values = new BlobServiceSasSignatureValues(OffsetDateTime.now().plusDays(1), new BlobSasPermission().setReadPermission(true));
        var url = source.getBlobUrl() + "?" + source.generateSas(values);
        var copy = container.getBlobClient("copy");
        copy.beginCopy(url, null).waitForCompletion();
        require(Arrays.equals(copy.downloadContent().toBytes(), CONTENT), "a copy");
        copy.getBlockBlobClient().uploadFromUrl(url, true);
        require(Arrays.equals(copy.downloadContent().toBytes(), CONTENT), "a blob put from a URL");
    }

    static List<String> names(Iterable<BlobItem> items) {
        var names = new java.util.ArrayList<String>();
        items.forEach(item -> names.add(item.getName()));
        names.sort(null);
        return names;
    }

    static void refused(int status, BlobErrorCode code, Runnable what) {
        try {
            what.run();
        } catch (BlobStorageException error) {
            require(error.getStatusCode() == status && error.getErrorCode().equals(code), code + ": " + error);
            return;
        }
        require(false, "expected " + code);
    }

    static void require(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }
}
