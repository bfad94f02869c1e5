import FoundationEssentials
import OTAFirmware
import OTASigning

/// `device.json` in the folder of a virtual device that speaks SMP.
package struct SMPDeviceFile: Codable {
    private let schema: Int
    private let `protocol`: String
    private let board: String
    private let trustedKeys: [String]
    private let pageSize, slotSize, writeUnit: Int
    private let bufferSize, bufferCount: Int
    /// Absent in files of earlier releases, whose devices report it.
    private let reportsBoard: Bool?
    private let tellsParameters, reassembles, marksImages, tellsSlots, refusesDowngrade: Bool

    package init(_ configuration: VirtualSMPConfiguration) {
        schema = DeviceFile.newestSchema
        self.protocol = VirtualDeviceProtocol.smp.rawValue
        board = configuration.board
        trustedKeys = configuration.trustedKeys.map { Hex.encode($0.bytes) }
        pageSize = configuration.layout.pageSize
        slotSize = configuration.layout.slotSize
        writeUnit = configuration.layout.writeUnit
        bufferSize = configuration.bufferSize
        bufferCount = configuration.bufferCount
        tellsParameters = configuration.tellsParameters
        reassembles = configuration.reassembles
        marksImages = configuration.marksImages
        tellsSlots = configuration.tellsSlots
        refusesDowngrade = configuration.refusesDowngrade
        reportsBoard = configuration.reportsBoard
    }

    /// - Throws: `malformed` or `fromNewerVersion`, without the path.
    package init(json: [UInt8]) throws(VirtualDeviceError) { self = try DeviceFile.read(json) }

    package var json: [UInt8] { get throws { try DeviceFile.write(self) } }

    /// - Throws: `malformed`, without the path.
    package var configuration: VirtualSMPConfiguration {
        get throws(VirtualDeviceError) {
            var configuration = VirtualSMPConfiguration(trustedKeys: try DeviceFile.keys(trustedKeys))
            configuration.board = board
            configuration.layout = FlashLayout(pageSize: pageSize, slotSize: slotSize, writeUnit: writeUnit)
            configuration.bufferSize = bufferSize
            configuration.bufferCount = bufferCount
            configuration.tellsParameters = tellsParameters
            configuration.reassembles = reassembles
            configuration.marksImages = marksImages
            configuration.tellsSlots = tellsSlots
            configuration.refusesDowngrade = refusesDowngrade
            configuration.reportsBoard = reportsBoard ?? true
            do {
                try configuration.validate()
            } catch {
                throw VirtualDeviceError(.malformed, error.context)
            }
            return configuration
        }
    }
}
