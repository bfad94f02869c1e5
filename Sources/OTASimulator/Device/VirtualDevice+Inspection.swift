public import OTAFirmware

/// What a test or a person wants to know of a virtual device. It may be asked at any time.
extension VirtualDevice {
    /// The latest time it was told, since it was switched on.
    public var now: Duration { lock.locked { time } }

    /// Erases and programs of its flash so far, those of its making included.
    public var flashOperationCount: Int { lock.locked { flash.operationCount } }
    /// What firmware must never do to a flash: see `FlashError`.
    public var flashViolationCount: Int { lock.locked { flash.violationCount } }
    /// Restarts and power cuts so far.
    public var restartCount: Int { lock.locked { restarts } }
    /// The seconds of each request to blink.
    public var identifyRequests: [Int] { lock.locked { identifications } }

    public var isUnbootable: Bool {
        lock.locked { if case .unbootable = power { true } else { false } }
    }

    /// What the bootloader has on record.
    public var bootState: BootState? { lock.locked { VirtualBootloader(flash: flash).state } }

    /// What runs; nil: nothing does, for the moment or for good.
    public var running: VirtualBootloader.Boot? {
        lock.locked { if case .on(let core) = power { core.boot } else { nil } }
    }

    /// The bytes of the image that runs.
    public var runningImage: [UInt8]? {
        lock.locked {
            guard case .on(let core) = power else { return nil }
            return try? flash.withBytes(at: flash.layout.slot(core.boot.slot), count: core.boot.image.size) {
                Array($0)
            }
        }
    }

    /// What lies in the slot of an image that is about to be tried; nil: none is.
    public var markedImage: [UInt8]? { lock.locked { VirtualBootloader(flash: flash).markedImage } }

    /// What the core's records tell of a half-received image that it goes on from: the digest of its manifest, and as many bytes of
    /// the slot as are told of. Nil: nothing runs, or they tell of nothing.
    public var recordedImage: (manifest: SHA256Digest, bytes: [UInt8])? {
        lock.locked {
            guard case .on(let core) = power, let (manifest, size) = core.record else { return nil }
            return (try? flash.withBytes(at: core.downloadSlot, count: size) { Array($0) }).map { (manifest, $0) }
        }
    }

    /// How far it is with the image it is receiving, in bytes; nil: it is receiving none.
    public var imageReception: (offset: Int, size: Int)? {
        lock.locked { if case .on(let core) = power { core.imageReception } else { nil } }
    }
}
