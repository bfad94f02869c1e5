/// The bytes of an image from `offset` to the image's end, encoded as an LZMA2 stream.
///
/// The dictionary at the start of the stream is the base, followed by the image's bytes before `offset`. Without a base, the dictionary
/// consists only of the image's bytes before `offset`. The stream is raw LZMA2 with lc = lp = pb = 0, and it does not contain the end mark
/// (a zero byte). The device decodes the stream during the reception (docs/ota-profile.md).
public struct EncodedImage: Sendable, Equatable {
    /// The end of an LZMA2 chunk: its position in the image, and its position in the stream. The next chunk starts at these positions.
    public struct Chunk: Sendable, Equatable {
        /// The end of the chunk's decoded bytes, in bytes from the start of the image.
        public var imageEnd: Int
        /// The end of the chunk's encoded bytes, in bytes from the start of the stream.
        public var streamEnd: Int

        public init(imageEnd: Int, streamEnd: Int) {
            self.imageEnd = imageEnd
            self.streamEnd = streamEnd
        }
    }

    /// The largest number of decoded bytes in a compressed chunk. A device does not accept a larger chunk.
    public static let maximumChunk = 16384
    /// The maximum size of an image and of a base in bytes. The host does not encode a larger image, and does not use a larger base. A
    /// larger image is sent plain.
    public static let maximumSize = 16 << 20

    /// The position of the first decoded byte, in bytes from the start of the image.
    public var offset: Int
    /// The LZMA2 stream.
    public var bytes: [UInt8]
    /// The chunks in the order of the stream. In the last chunk, `imageEnd` is the size of the image, and `streamEnd` is the length of
    /// `bytes`. The list is empty if `offset` is the size of the image.
    public var chunks: [Chunk]

    public init(offset: Int, bytes: [UInt8], chunks: [Chunk]) {
        self.offset = offset
        self.bytes = bytes
        self.chunks = chunks
    }
}

/// The reason why an image cannot be encoded. The image is then sent plain.
public enum EncodingFailure: Error, Sendable, Equatable {
    /// The image or the base has more than `EncodedImage.maximumSize` bytes.
    case tooLarge
    /// The stream does not decode to the image, or the encoder failed. `context` describes the error for the user.
    case notDecoded(context: String)
    /// The file of the base cannot be read, or has changed since it was found. `context` describes the error for the user.
    case baseUnreadable(context: String)
}

/// An image that possibly runs on the device. If the device runs this image, the host can encode the update with this image as the base.
///
/// The value contains only the description of the image. The bytes are read from the file when the encoder needs them.
public struct BaseImage: Sendable, Equatable {
    /// The index of this value in the host's list of bases. The encoder selects the bytes of the image by this number.
    public var id: Int
    /// The size of the image in bytes.
    public var size: Int
    /// The SHA-256 of the image.
    public var digest: SHA256Digest
    /// The SHA-256 of the manifest of the bundle that contains the image. Nil if the image is not in a bundle.
    public var manifestDigest: SHA256Digest?
    /// The product in the manifest of the bundle. Nil if the image is not in a bundle.
    public var product: ProductName?
    /// The version in the manifest of the bundle. Nil if the image is not in a bundle.
    public var version: SemanticVersion?
    /// The name of the file that contains the image, for messages.
    public var name: String
    /// True if the user named the file of the image in the command. If a push does not offer such an image to the device, the push can
    /// report the reason in a note.
    package var isNamed = false

    public init(
        id: Int, size: Int, digest: SHA256Digest, manifestDigest: SHA256Digest? = nil, product: ProductName? = nil,
        version: SemanticVersion? = nil, name: String
    ) {
        self.id = id
        self.size = size
        self.digest = digest
        self.manifestDigest = manifestDigest
        self.product = product
        self.version = version
        self.name = name
    }

    /// Returns true if both values describe the same image. They can be from different files.
    package func hasSameImage(as other: BaseImage) -> Bool { digest == other.digest && size == other.size }
}
