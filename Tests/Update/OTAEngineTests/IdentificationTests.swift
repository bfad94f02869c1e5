import Gauntlet
import OTAEngine
import OTAFirmware
import OTAProfile
import OTASMP
import OTASigning
import OTASimulator
import OTAUpdate
import Testing

/// How a scan reads the product and the version of a device.
@Suite("Identification of a device") struct IdentificationTests {
    /// Runs the conversation without a retry, and returns its result and duration.
    private func identify(
        _ conversation: any Conversation, _ device: some SimulatedDevice
    ) throws -> (Result<UpdateReport, UpdateError>, Duration) {
        let time = VirtualTime()
        let transport = SimulatedTransport(device: device, clock: time)
        return try time.run {
            let start = time.now
            var result: Result<UpdateReport, UpdateError>
            do throws(UpdateError) {
                result = .success(
                    try await UpdateRunner(clock: time, awaitsLinkEnd: true).run(
                        UpdateSession(conversation, seed: 1, attempts: 0), over: transport,
                        interrupts: AsyncStream { _ in }))
            } catch {
                result = .failure(error)
            }
            return (result, start.duration(to: time.now))
        }
    }

    private func smpDevice(_ change: (inout VirtualSMPConfiguration) -> Void) throws -> VirtualSMPDevice {
        var configuration = VirtualSMPConfiguration(trustedKeys: [])
        change(&configuration)
        return try VirtualSMPDevice(configuration)
    }

    @Test("over SMP, the board and the version are read, with a version alone if the device reports no board")
    func smp() throws {
        let device = try identify(SMPDefinition().identification(), smpDevice { $0.board = "lamp" }).0.get().device
        #expect(device.product == "lamp" && device.runningVersion == "1.0.0")
        let other = try identify(SMPDefinition().identification(), smpDevice { $0.reportsBoard = false }).0.get().device
        #expect(other.product == nil && other.runningVersion == "1.0.0")
    }

    @Test("a device with one slot has no running version in a scan, with its application and with its loader")
    func oneSlot() throws {
        let device = try smpDevice {
            $0.loader = VirtualSMPConfiguration.Loader()
            $0.loader?.list = .applicationOnly
        }
        let application = try identify(SMPDefinition().identification(), device).0.get().device
        #expect(application.runningVersion.isEmpty && application.state == .unknown)
        device.enterLoader()
        _ = device.poll(at: device.now + .seconds(2))
        let loader = try identify(SMPDefinition().identification(), device).0.get().device
        #expect(loader.runningVersion.isEmpty)
    }

    @Test("an SMP device that is silent ends the identification after 5 s, without a second link")
    func silent() throws {
        let device = try smpDevice { $0.answerDelay = .seconds(60) }
        let (result, duration) = try identify(SMPDefinition().identification(), device)
        #expect(throws: UpdateError(.noAnswer, "")) { try result.get() }
        #expect(duration >= .seconds(5) && duration < .seconds(6))
    }

    @Test("an SMP device without the image group cannot be identified, and is not asked again")
    func refusing() throws {
        let (result, duration) = try identify(SMPDefinition().identification(), smpDevice { $0.hasImageGroup = false })
        #expect(throws: UpdateError(.unsupportedDevice, "")) { try result.get() }
        #expect(duration < .seconds(1))
    }

    @Test("over the GATT OTA profile, the product and the version are read without a subscription")
    func profile() throws {
        let world = try World(try ExampleRelease(bytes: 1000))
        let device = try identify(ProfileDefinition().identification(), world.device).0.get().device
        #expect(device.product == world.release.bundle.manifest.product.text)
        var session = UpdateSession(ProfileDefinition().identification(), seed: 1, attempts: 0)
        _ = session.handle(.started, at: .zero)
        let commands = session.handle(
            .linkUp(LinkProperties(channels: [ProfileChannel.info, ProfileChannel.version], maximumValueLength: 20)),
            at: .zero)
        #expect(commands.contains(.link(.read(ProfileChannel.info))))
        #expect(!commands.contains { if case .link(.subscribe) = $0 { true } else { false } })
    }
}
