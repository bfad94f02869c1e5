import DescriptorIO
public import OTAFirmware

/// Properties for tests and for the user. They may be read at any time.
extension VirtualDevice {
    /// The latest time that was passed to the device, measured from the power-up.
    public var now: Duration { lock.locked { time } }

    /// The number of erases and programs of the flash so far, including those of the device's creation.
    public var flashOperationCount: Int { lock.locked { flash.operationCount } }
    /// The number of flash operations that firmware must never request (see `FlashError`).
    public var flashViolationCount: Int { lock.locked { flash.violationCount } }
    /// The number of restarts and power cuts so far.
    public var restartCount: Int { lock.locked { restarts } }
    /// The durations of all identify requests, in seconds.
    public var identifyRequests: [Int] { lock.locked { identifications } }

    public var isUnbootable: Bool {
        lock.locked { if case .unbootable = power { true } else { false } }
    }

    /// The state of the bootloader in the flash; nil if there is no record.
    public var bootState: BootState? { lock.locked { VirtualBootloader(flash: flash).state } }

    /// The running image; nil if the device is off, starting, or unbootable.
    public var running: VirtualBootloader.Boot? {
        lock.locked { if case .on(let core) = power { core.boot } else { nil } }
    }

    /// The bytes of the running image.
    public var runningImage: [UInt8]? {
        lock.locked {
            guard case .on(let core) = power else { return nil }
            return try? flash.withBytes(at: flash.layout.slot(core.boot.slot), count: core.boot.image.size) {
                Array($0)
            }
        }
    }

    /// The bytes of the image that the next boot starts on trial; nil if no trial is pending.
    public var markedImage: [UInt8]? { lock.locked { VirtualBootloader(flash: flash).markedImage } }

    /// The partially received image in the core's records, which a later update resumes: the digest of its manifest and the recorded bytes
    /// of the slot. Nil if the device does not run or has no such record.
    public var recordedImage: (manifest: SHA256Digest, bytes: [UInt8])? {
        lock.locked {
            guard case .on(let core) = power, let (manifest, size) = core.record else { return nil }
            return (try? flash.withBytes(at: core.downloadSlot, count: size) { Array($0) }).map { (manifest, $0) }
        }
    }

    /// The offset and the size of the image in reception, in bytes; nil if the device receives none.
    public var imageReception: (offset: Int, size: Int)? {
        lock.locked { if case .on(let core) = power { core.imageReception } else { nil } }
    }
}
