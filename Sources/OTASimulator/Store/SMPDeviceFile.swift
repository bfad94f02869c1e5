import FoundationEssentials
import OTAFirmware
import OTASigning
import OTAUpdate

/// The file `device.json` in the folder of a virtual SMP device.
package struct SMPDeviceFile: Codable {
    private let schema: Int
    private let `protocol`: String
    private let board: String
    private let trustedKeys: [String]
    private let pageSize, slotSize, writeUnit: Int
    private let bufferSize, bufferCount: Int
    /// Whether the device reports its board. Nil in files of earlier releases: it does.
    private let reportsBoard: Bool?
    private let reportsParameters, reassembles, marksImages, reportsSlots, refusesDowngrade: Bool
    /// The delays in milliseconds. Nil in files of earlier releases: 0.
    private let answerMilliseconds, releaseMilliseconds: Int?

    package init(_ configuration: VirtualSMPConfiguration) {
        schema = DeviceFile.newestSchema
        self.protocol = UpdateProtocol.smp.rawValue
        board = configuration.board
        trustedKeys = configuration.trustedKeys.map { Hex.encode($0.bytes) }
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
    }

    /// Parses the file.
    ///
    /// - Throws: `malformed` or `fromNewerVersion`, without the path.
    package init(json: [UInt8]) throws(VirtualDeviceError) { self = try DeviceFile.read(json) }

    package var json: [UInt8] { get throws { try DeviceFile.write(self) } }

    /// The device's configuration.
    ///
    /// - Throws: `malformed`, without the path.
    package var configuration: VirtualSMPConfiguration {
        get throws(VirtualDeviceError) {
            var configuration = VirtualSMPConfiguration(trustedKeys: try DeviceFile.keys(trustedKeys))
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
            do {
                try configuration.validate()
            } catch {
                throw VirtualDeviceError(.malformed, error.context)
            }
            return configuration
        }
    }
}
