import OTAEncoding
package import OTAEngine
package import OTAFirmware
import OTASigning
package import OTASimulator
import OTAUpdate

/// Makes images that compress like firmware, and later versions of them.
package enum Firmware {
    /// Returns an image of short random phrases, which LZMA2 compresses to about 60 %.
    package static func image(bytes count: Int, seed: UInt64) -> [UInt8] {
        var random = SplitMix64(seed: seed)
        let phrases = (0..<256).map { _ in
            (0..<Int.random(in: 2...6, using: &random)).map { _ in UInt8.random(in: 0...255, using: &random) }
        }
        var image: [UInt8] = []
        while image.count < count {
            image += phrases[Int.random(in: 0..<phrases.count, using: &random)]
            if Bool.random(using: &random) { image.append(UInt8.random(in: 0...255, using: &random)) }
        }
        return Array(image.prefix(count))
    }

    /// Returns another version of an image: some bytes change, and some code is inserted, so that all later bytes move.
    ///
    /// - Parameter changes: the number of changed places.
    package static func changed(_ image: [UInt8], changes: Int, seed: UInt64) -> [UInt8] {
        var random = SplitMix64(seed: seed)
        var image = image
        for _ in 0..<changes {
            let place = Int.random(in: 0..<image.count, using: &random)
            image[place] ^= UInt8.random(in: 1...255, using: &random)
        }
        let place = Int.random(in: 0..<image.count, using: &random)
        let inserted = (0..<64).map { _ in UInt8.random(in: 0...255, using: &random) }
        image.insert(contentsOf: inserted, at: place)
        return image
    }
}

/// The images that a client has as bases, and the encoder that reads them.
package final class Bases: @unchecked Sendable {
    package let list: [BaseImage]
    private let images: [[UInt8]]
    /// The encoded images, because the suites encode the same image from the same offset many times. Under virtual time everything runs on
    /// one thread, and each test has its own object.
    private var encoded: [Key: Result<EncodedImage, EncodingFailure>] = [:]

    private struct Key: Hashable {
        var digest: SHA256Digest
        var offset: Int
        var base: Int?
    }

    /// - Parameter images: the images, and the bundles that contain them if there are any.
    package init(_ images: [(image: [UInt8], manifest: Manifest?)]) {
        self.images = images.map(\.image)
        list = images.enumerated().map { index, base in
            BaseImage(
                id: index, size: base.image.count, digest: SHA256.digest(of: base.image),
                manifestDigest: base.manifest.map { SHA256.digest(of: $0.bytes) }, product: base.manifest?.product,
                version: base.manifest?.version, name: "base-\(index)")
        }
    }

    package func encoder(for release: ExampleRelease) -> UpdateRunner<VirtualTime>.Encoder {
        let digest = release.bundle.manifest.imageDigest
        return { [self] request in
            let key = Key(digest: digest, offset: request.offset, base: request.base?.id)
            if let known = encoded[key] { return known }
            let result: Result<EncodedImage, EncodingFailure>
            do throws(EncodingFailure) {
                let base = request.base.map { images[$0.id] } ?? []
                result = .success(try ImageEncoder.encode(release.image, from: request.offset, base: base))
            } catch {
                result = .failure(error)
            }
            if encoded.count < 64 || request.offset == 0 { encoded[key] = result }
            return result
        }
    }
}

/// The releases of the gauntlet's worlds with encoded images, the device's first image, and the bases that clients can have.
struct EncodedReleases: Sendable {
    let releases: [ExampleRelease]
    let factory: [UInt8]
    let bases: Bases

    /// - Parameter count: the size of the first release's image; the others differ by some bytes.
    init(bytes count: Int) throws {
        let first = Firmware.image(bytes: count, seed: UInt64(count))
        let second = Firmware.changed(first, changes: count / 100, seed: 2)
        factory = Firmware.changed(first, changes: count / 20, seed: 3)
        releases = [
            try ExampleRelease(image: first, version: "1.1.0", counter: 2, keySeed: 1),
            try ExampleRelease(image: second, version: "1.2.0", counter: 3, keySeed: 1),
        ]
        let impostor = try ExampleRelease(
            image: Firmware.changed(factory, changes: 9, seed: 4), version: "1.0.0", counter: 1, keySeed: 1)
        bases = Bases(
            [(factory, nil)] + (releases + [impostor]).map { ($0.image, $0.bundle.manifest) })
    }
}
