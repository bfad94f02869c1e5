import FoundationEssentials
import OTAFirmware
import OTASigning
import OTAUpdate

/// The file `device.json` in the folder of a virtual device with the GATT OTA profile. It contains the device's configuration.
///
/// Sizes are in bytes. A key has 64 hex digits. The image format has the same numeric value as in a manifest.
package struct DeviceFile: Codable {
    /// The newest schema that this release can read. Files of SMP devices have schema 2, files of devices with the GATT OTA profile have
    /// schema 1.
    static let newestSchema = 2

    /// The members that the store reads first. The store refuses a `schema` above `newestSchema`. `protocol` selects the type of the file.
    /// The file of a device with the GATT OTA profile has no member `protocol`.
    private struct Head: Decodable {
        let schema: Int
        let `protocol`: String?
    }

    private let schema: Int
    private let product: String
    private let hardware: UInt16
    /// The raw value of an `ImageFormat`. Nil means every format.
    private let imageFormat: UInt8?
    private let trustedKeys: [String]
    /// Nil means 1, because files of earlier releases do not contain this member.
    private let requiredSignatures: Int?
    private let battery: Int?
    private let pageSize, slotSize, writeUnit: Int
    private let window, longestData: Int
    private let restartSeconds, trialSeconds: Int
    /// Nil means true, because files of earlier releases do not contain these members.
    private let offersEncodings, offersBase: Bool?

    package init(_ configuration: VirtualDeviceConfiguration) {
        schema = 1
        product = configuration.product.text
        hardware = configuration.hardware
        imageFormat = configuration.imageFormat?.rawValue
        trustedKeys = configuration.trustedKeys.map { Hex.encode($0.bytes) }
        requiredSignatures = configuration.requiredSignatures == 1 ? nil : configuration.requiredSignatures
        battery = configuration.battery
        pageSize = configuration.layout.pageSize
        slotSize = configuration.layout.slotSize
        writeUnit = configuration.layout.writeUnit
        window = configuration.window
        longestData = configuration.longestData
        restartSeconds = configuration.restartSeconds
        trialSeconds = configuration.trialSeconds
        offersEncodings = configuration.offersEncodings ? nil : false
        offersBase = configuration.offersBase ? nil : false
    }

    /// Parses the file.
    ///
    /// - Throws: `malformed` or `fromNewerVersion`. The caller must add the path to the error's context.
    package init(json: [UInt8]) throws(VirtualDeviceError) { self = try Self.read(json) }

    /// Returns the device's protocol. A file without the member `protocol` belongs to a device with the GATT OTA profile.
    ///
    /// - Throws: `malformed` or `fromNewerVersion`. The caller must add the path to the error's context.
    static func updateProtocol(json: [UInt8]) throws(VirtualDeviceError) -> UpdateProtocol {
        let name = try read(json, Head.self).protocol ?? UpdateProtocol.ota.rawValue
        guard let updateProtocol = UpdateProtocol(rawValue: name) else {
            throw VirtualDeviceError(.malformed, "unknown protocol '\(name)'; expected ota or smp")
        }
        return updateProtocol
    }

    static func read<File: Decodable>(
        _ json: [UInt8], _ type: File.Type = File.self
    ) throws(VirtualDeviceError) -> File {
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        do {
            let schema = try decoder.decode(Head.self, from: Data(json)).schema
            guard schema <= newestSchema else {
                throw VirtualDeviceError(
                    .fromNewerVersion, "the file has schema \(schema); this release supports up to \(newestSchema)")
            }
            return try decoder.decode(File.self, from: Data(json))
        } catch let error as VirtualDeviceError {
            throw error
        } catch {
            throw VirtualDeviceError(.malformed, describe(error))
        }
    }

    package var json: [UInt8] { get throws { try Self.write(self) } }

    static func write(_ file: some Encodable) throws -> [UInt8] {
        let encoder = JSONEncoder()
        encoder.keyEncodingStrategy = .convertToSnakeCase
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys]
        return Array(try encoder.encode(file)) + [UInt8(ascii: "\n")]
    }

    /// Parses trusted Ed25519 keys. Each key has 64 hex digits.
    ///
    /// - Throws: `malformed`.
    static func keys(_ texts: [String]) throws(VirtualDeviceError) -> [PublicKey] {
        var keys: [PublicKey] = []
        for text in texts {
            guard let bytes = Hex.decode(text), let key = try? PublicKey(bytes: bytes) else {
                throw VirtualDeviceError(
                    .malformed, "trusted key \(keys.count + 1) is not an Ed25519 public key of 64 hex digits")
            }
            keys.append(key)
        }
        return keys
    }

    /// The device's configuration.
    ///
    /// - Throws: `malformed`. The caller must add the path to the error's context.
    package var configuration: VirtualDeviceConfiguration {
        get throws(VirtualDeviceError) {
            guard let product = ProductName(product) else {
                throw VirtualDeviceError(.malformed, "the product '\(product)' is not \(ProductName.rule)")
            }
            let format = imageFormat.flatMap { ImageFormat(rawValue: $0) }
            if let imageFormat, format == nil {
                throw VirtualDeviceError(.malformed, "unknown image format \(imageFormat)")
            }
            var configuration = VirtualDeviceConfiguration(
                product: product, trustedKeys: try Self.keys(trustedKeys))
            configuration.hardware = hardware
            configuration.imageFormat = format
            configuration.requiredSignatures = requiredSignatures ?? 1
            configuration.battery = battery
            configuration.layout = FlashLayout(pageSize: pageSize, slotSize: slotSize, writeUnit: writeUnit)
            configuration.window = window
            configuration.longestData = longestData
            configuration.restartSeconds = restartSeconds
            configuration.trialSeconds = trialSeconds
            configuration.offersEncodings = offersEncodings ?? true
            configuration.offersBase = offersBase ?? true
            // The wear limit protects real flash, but a file does not wear out. The limit could also block a virtual device for ever. A
            // device at the limit answers "busy" until some time has passed, but the clock of a virtual device stops between two runs of
            // otaflash.
            configuration.limitsWear = false
            do {
                try configuration.validate()
            } catch {
                throw VirtualDeviceError(.malformed, error.context)
            }
            return configuration
        }
    }

    private static func describe(_ error: any Error) -> String {
        switch error {
        case DecodingError.keyNotFound(let key, _): "the member \(key.stringValue) is missing"
        case DecodingError.typeMismatch(_, let context), DecodingError.valueNotFound(_, let context):
            "the member \(context.codingPath.map(\.stringValue).joined(separator: ".")) has the wrong type"
        case DecodingError.dataCorrupted(let context) where !context.codingPath.isEmpty:
            "the member \(context.codingPath.map(\.stringValue).joined(separator: ".")) is out of range"
        default: "the file is not valid JSON"
        }
    }
}

/// The file `device.json` in the folder of a virtual SMP device. It contains the device's configuration.
package struct SMPDeviceFile: Codable {
    private let schema: Int
    private let `protocol`: String
    private let board: String
    private let trustedKeys: [String]
    /// The trusted ECDSA and RSA keys, each as a SubjectPublicKeyInfo in hex digits. Nil means that the device trusts no such keys. Files
    /// of earlier releases do not contain this member.
    private let otherTrustedKeys: [String]?
    private let pageSize, slotSize, writeUnit: Int
    private let bufferSize, bufferCount: Int
    /// Whether the device reports its board. Nil means true, because files of earlier releases do not contain this member.
    private let reportsBoard: Bool?
    private let reportsParameters, reassembles, marksImages, reportsSlots, refusesDowngrade: Bool
    /// The values of `answerDelay` and `releaseDelay` in milliseconds. Nil means 0, because files of earlier releases do not contain these
    /// members.
    private let answerMilliseconds, releaseMilliseconds: Int?
    /// Nil means no limit, because files of earlier releases do not contain this member.
    private let packetLimit: Int?
    /// Nil means true, because files of earlier releases do not contain this member.
    private let hasImageGroup: Bool?

    package init(_ configuration: VirtualSMPConfiguration) {
        schema = DeviceFile.newestSchema
        self.protocol = UpdateProtocol.smp.rawValue
        board = configuration.board
        trustedKeys = configuration.trustedKeys.map { Hex.encode($0.bytes) }
        let others = configuration.otherTrustedKeys.map { Hex.encode($0.subjectPublicKeyInfo) }
        otherTrustedKeys = others.isEmpty ? nil : others
        pageSize = configuration.layout.pageSize
        slotSize = configuration.layout.slotSize
        writeUnit = configuration.layout.writeUnit
        bufferSize = configuration.bufferSize
        bufferCount = configuration.bufferCount
        reportsParameters = configuration.reportsParameters
        reassembles = configuration.reassembles
        marksImages = configuration.marksImages
        reportsSlots = configuration.reportsSlots
        refusesDowngrade = configuration.refusesDowngrade
        reportsBoard = configuration.reportsBoard
        answerMilliseconds = Int(configuration.answerDelay / .milliseconds(1))
        releaseMilliseconds = Int(configuration.releaseDelay / .milliseconds(1))
        packetLimit = configuration.packetLimit
        hasImageGroup = configuration.hasImageGroup ? nil : false
    }

    /// Parses the file.
    ///
    /// - Throws: `malformed` or `fromNewerVersion`. The caller must add the path to the error's context.
    package init(json: [UInt8]) throws(VirtualDeviceError) { self = try DeviceFile.read(json) }

    package var json: [UInt8] { get throws { try DeviceFile.write(self) } }

    /// The device's configuration.
    ///
    /// - Throws: `malformed`. The caller must add the path to the error's context.
    package var configuration: VirtualSMPConfiguration {
        get throws(VirtualDeviceError) {
            var configuration = VirtualSMPConfiguration(trustedKeys: try DeviceFile.keys(trustedKeys))
            configuration.otherTrustedKeys = try Self.otherKeys(otherTrustedKeys ?? [])
            configuration.board = board
            configuration.layout = FlashLayout(pageSize: pageSize, slotSize: slotSize, writeUnit: writeUnit)
            configuration.bufferSize = bufferSize
            configuration.bufferCount = bufferCount
            configuration.reportsParameters = reportsParameters
            configuration.reassembles = reassembles
            configuration.marksImages = marksImages
            configuration.reportsSlots = reportsSlots
            configuration.refusesDowngrade = refusesDowngrade
            configuration.reportsBoard = reportsBoard ?? true
            configuration.answerDelay = .milliseconds(answerMilliseconds ?? 0)
            configuration.releaseDelay = .milliseconds(releaseMilliseconds ?? 0)
            configuration.packetLimit = packetLimit
            configuration.hasImageGroup = hasImageGroup ?? true
            do {
                try configuration.validate()
            } catch {
                throw VirtualDeviceError(.malformed, error.context)
            }
            return configuration
        }
    }

    private static func otherKeys(_ texts: [String]) throws(VirtualDeviceError) -> [ImagePublicKey] {
        var keys: [ImagePublicKey] = []
        for text in texts {
            guard let info = Hex.decode(text), let key = try? ImagePublicKey(subjectPublicKeyInfo: info) else {
                throw VirtualDeviceError(
                    .malformed, "other trusted key \(keys.count + 1) is not a SubjectPublicKeyInfo in hex digits")
            }
            keys.append(key)
        }
        return keys
    }
}
