import OTAFirmware
import OTASMP
import OTASigning
import OTAUpdate

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
    /// The image list of the firmware loader. Nil means a device with two slots.
    private let loader: VirtualSMPConfiguration.Loader.List?

    package init(_ configuration: VirtualSMPConfiguration) {
        schema = DeviceJSON.newestSchema
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
        loader = configuration.loader?.list
    }

    /// Parses the file.
    ///
    /// - Throws: `malformed` or `fromNewerVersion`. The caller must add the path to the error's context.
    package init(json: [UInt8]) throws(VirtualDeviceError) { self = try DeviceJSON.read(json) }

    package var json: [UInt8] { get throws { try DeviceJSON.write(self) } }

    /// The device's configuration.
    ///
    /// - Throws: `malformed`. The caller must add the path to the error's context.
    package var configuration: VirtualSMPConfiguration {
        get throws(VirtualDeviceError) {
            var configuration = VirtualSMPConfiguration(trustedKeys: try DeviceJSON.keys(trustedKeys))
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
            if let loader {
                configuration.loader = VirtualSMPConfiguration.Loader()
                configuration.loader?.list = loader
            }
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
