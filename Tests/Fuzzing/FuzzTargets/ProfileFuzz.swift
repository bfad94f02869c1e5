import Gauntlet
import OTAFirmware
import OTAProfile
import OTASigning
import OTAUpdate

/// Decodes the values of a device with the OTA profile. The first byte selects the request for the answer.
enum FrameFuzz {
    private static let requests: [Request] = [
        .begin(.image, size: 1, from: 0, digestPrefix: []), .sync(sequence: 0), .finish(.image),
        .apply(permanent: false),
        .confirm, .discard, .identify(seconds: 1),
    ]

    static func run(_ bytes: [UInt8]) -> String? {
        if let info = try? DeviceInfo(parsing: bytes) {
            if !(1...2047).contains(info.window) { return "a window of \(info.window) chunks" }
            if !(20...512).contains(info.longestValue) { return "Data values of \(info.longestValue) bytes" }
            if info.keys.isEmpty { return "a device info without keys is accepted" }
        }
        if (try? ProgressValue(parsing: bytes)) != nil, bytes.count != 12 { return "Progress of \(bytes.count) bytes" }
        guard bytes.count >= 2 else { return nil }
        let request = requests[Int(bytes[0]) % requests.count]
        if let answer = try? ControlAnswer(to: request, tag: bytes[1], parsing: bytes), answer.opcode != request.opcode
        {
            return "the answer belongs to another request"
        }
        return nil
    }
}

/// Runs a session of the OTA profile with a device that the input controls.
enum SessionFuzz {
    private static let release = try? FuzzRelease()

    static func run(_ bytes: [UInt8]) -> String? {
        guard let release else { return "the release cannot be made" }
        var input = FuzzInput(bytes)
        let task = input.next()
        if task >= FuzzInput.hostile { return HostileRun.offence(overSMP: false) { input.number(in: $0) } }
        guard let conversation = try? ProfileConversation(release.task(task)) else {
            return "the profile does not support the task"
        }
        let session = UpdateSession(conversation, seed: UInt64(input.next()))
        var peer = ProfilePeer(release: release)
        return peer.run(session, &input)
    }
}

private struct ProfilePeer: FuzzPeer {
    private static let channels = [
        ProfileChannel.info, ProfileChannel.control, ProfileChannel.data, ProfileChannel.progress,
        ProfileChannel.version, ProfileChannel.battery,
    ]

    let release: FuzzRelease
    /// The tag of the last request.
    private var tag: UInt8 = 0
    /// The last request to the encoder.
    private var request: EncodingRequest?

    init(release: FuzzRelease) { self.release = release }

    mutating func hear(_ action: UpdateAction) -> String? {
        switch action {
        case .link(.write(let value, ProfileChannel.control)) where value.count >= 2: tag = value[1]
        case .link(.send(let values, _)):
            if values.contains(where: { $0.count < 3 || $0.count > 512 }) {
                return "a chunk is shorter than 3 bytes or longer than 512"
            }
        case .encode(let request): self.request = request
        default: break
        }
        return nil
    }

    /// Returns an answer of the encoder: a stream, an invalid stream, a failure, or nothing.
    private func result(_ request: EncodingRequest, _ what: UInt8) -> Result<EncodedImage, EncodingFailure>? {
        let count = Int(what >> 2) * 4 + 1
        let stream = EncodedImage(
            offset: request.offset, bytes: [UInt8](repeating: what, count: count),
            chunks: [EncodedImage.Chunk(imageEnd: release.bundle.image.count, streamEnd: count)])
        switch what & 3 {
        case 0, 1: return .success(stream)
        case 2: return what & 4 == 0 ? nil : .failure(.notDecoded(context: "fuzz"))
        default: return .success(EncodedImage(offset: request.offset, bytes: [what], chunks: []))
        }
    }

    mutating func event(_ input: inout FuzzInput, at now: inout Duration, deadline: Duration?) -> UpdateEvent {
        let channels = Self.channels
        let what = input.next()
        let channel = channels[Int(what >> 4) % channels.count]
        switch what & 15 {
        case 0: return .linkUp(LinkProperties(channels: Set(channels), maximumValueLength: Int(input.next()) * 2))
        case 1: return .link(.subscribed(channel))
        case 2: return .link(.value(input.bytes(upTo: Int(input.next())), channel))
        case 3: return .link(.notified(input.bytes(upTo: Int(input.next())), channel))
        case 4: return .link(.written(channel))
        case 5: return .link(.refused(LinkError(what & 128 == 0 ? .refused : .notPermitted, "fuzz"), channel))
        case 6, 7: return .linkDown(LinkError(.lost, "fuzz"))
        case 8:
            guard what & 16 != 0, let request else { return .interrupted }
            return .encoded(request, result(request, input.next()))
        case 9:
            now += .milliseconds(Int(input.nextNumber()))
            return .deadlinePassed
        case 10: return .link(.value(release.info(input.next()), ProfileChannel.info))
        case 11: return .link(.value(Array("1.\(what >> 4 & 1).0".utf8), ProfileChannel.version))
        case 12:
            return .link(.value([input.next() % 6, 0] + [UInt8](repeating: 0, count: 10), ProfileChannel.progress))
        case 13:
            // An answer with the correct tag.
            return .link(.notified([0x80 | input.next(), tag] + input.bytes(upTo: 11), ProfileChannel.control))
        case 14: return .link(.notified([0x81, tag, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0], ProfileChannel.control))
        default:
            now = max(now, deadline ?? now)
            return .deadlinePassed
        }
    }
}

/// A small verified bundle, which is the same in every process, and the info of a device for it.
struct FuzzRelease {
    let bundle: VerifiedBundle
    private let key: PublicKey

    init() throws {
        let image = (0..<600).map { UInt8(truncatingIfNeeded: $0 % 251) }
        let privateKey = try PrivateKey(seed: [UInt8](repeating: 7, count: 32))
        key = privateKey.publicKey
        guard let version = SemanticVersion("1.1.0"), let product = ProductName("demo") else {
            throw KeyError(.notAKey, "the version or the product name is malformed")
        }
        let manifest = try Manifest(
            imageFormat: .raw, imageSize: 600, securityCounter: 2, created: 0, imageDigest: SHA256.digest(of: image),
            version: version, product: product)
        guard let signature = BundleSignature(.ed25519, keyID: key.id, signature: try privateKey.sign(manifest.bytes))
        else {
            throw KeyError(.notAKey, "the signature is malformed")
        }
        let envelope = try Envelope(manifest: manifest, signatures: [signature])
        bundle = try Verifier(trust: try TrustStore([key])).verify(try SignedBundle(envelope: envelope, image: image))
    }

    func task(_ number: UInt8) -> UpdateTask<VerifiedBundle> {
        switch number % 8 {
        case 0: .status
        case 1: .confirm
        case 2: .discard()
        case 3: .identify(seconds: number)
        case 4: .push(bundle, UpdateOptions(ending: .trial))
        case 5: .push(bundle, UpdateOptions(ending: .permanent))
        default: .push(bundle, UpdateOptions(resume: number & 8 == 0 ? .expected : .never, bases: bases(number)))
        }
    }

    private func bases(_ number: UInt8) -> [BaseImage] {
        (0..<Int(number >> 4)).map {
            BaseImage(id: $0, size: 300, digest: SHA256.digest(of: [UInt8($0)]), name: "fuzz")
        }
    }

    /// Returns the device's info. Bits of `variant`: 1: the device supports trials, 2: it holds half of the image, 4: it runs this
    /// release, 8: it decodes encoded images.
    func info(_ variant: UInt8) -> [UInt8] {
        let trial: UInt8 = variant & 1 == 1 ? 60 : 0
        var info: [UInt8] = [1, 1, 1, 2, 4] + Array("demo".utf8)
        info += [3, 2, 1, 0, 4, 4, 1, 0, 0, 0, 5, 5, 0, 0, 0, 1, 0, 6, 4, 244, 0, 16, 0, 7, 4, 10, 0, trial, 0]
        info += [8, 8] + key.id.bytes
        if variant & 4 != 0 { info += [9, 8] + bundle.manifestDigest.prefix }
        if variant & 2 != 0 { info += [10, 12] + bundle.manifestDigest.prefix + [44, 1, 0, 0] }
        if variant & 8 != 0 { info += [11, 5, 1, 0, 16, 0, 0] }
        return info
    }
}
